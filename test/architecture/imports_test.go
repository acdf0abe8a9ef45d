package architecture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// room is a package, or with /... all packages in a folder, with the rooms that it may import. "*"
// means every room before it.
type room struct {
	name    string
	imports string
}

// rooms are sorted from the bottom to the top: a room imports only rooms before it. Tests may
// import any.
var rooms = []room{
	// Packages without knowledge of Turnstile.
	{"internal/boundedjson", ""},
	{"internal/printable", ""},
	{"internal/process/guardian", ""},
	{"internal/process/paced", ""},
	{"internal/version", ""},
	// The leaves that users see.
	{"pkg/session", ""},
	{"internal/agents", "pkg/session"},
	{"internal/wire", "internal/boundedjson pkg/session"},
	{"internal/strictjson", "internal/boundedjson internal/printable pkg/session"},
	// Redis: its keys and records, scripts, connections, leases.
	{"internal/backoff", ""},
	{"internal/rediskey", ""},
	{"internal/redisconn", ""},
	{"internal/rights", "internal/redisconn internal/rediskey"},
	{"internal/agreement", "internal/rediskey internal/version"},
	{"internal/lease", ""},
	{"internal/script", "internal/backoff internal/redisconn"},
	// The lock and the marks.
	{"pkg/lockguard", "internal/lease internal/redisconn internal/rediskey internal/script"},
	{"pkg/resume", "internal/rediskey internal/script pkg/session"},
	// Agents: their interface, processes, folders, and adapters.
	{"pkg/agent", "pkg/session"},
	{"internal/workspace", "pkg/agent"},
	{"internal/process/command", "internal/process/guardian internal/workspace pkg/agent"},
	{"internal/process/confine", "internal/process/command internal/process/guardian"},
	{"pkg/agent/...", "internal/backoff internal/boundedjson internal/process/command internal/process/guardian internal/process/paced internal/strictjson internal/version internal/wire internal/workspace pkg/agent pkg/session"},
	// The moves, and the packages on top of them.
	{"internal/protocol/lua", "internal/script"},
	{"internal/protocol/lua/generate", "internal/protocol/lua"},
	{"internal/protocol/scripts", "internal/rediskey internal/script"},
	{"internal/index", "internal/protocol/scripts internal/rediskey internal/script pkg/session"},
	{"internal/stream", "internal/protocol/scripts internal/rediskey internal/script pkg/session"},
	{"internal/deliveries", "internal/boundedjson internal/index internal/protocol/scripts internal/rediskey internal/script internal/stream"},
	{"internal/protocol", "internal/agents internal/boundedjson internal/deliveries internal/index internal/lease internal/protocol/scripts internal/redisconn internal/rediskey internal/script internal/stream internal/wire pkg/session"},
	{"internal/recovery", "internal/deliveries internal/index internal/protocol internal/rediskey"},
	{"internal/maintenance", "internal/deliveries internal/index internal/protocol internal/redisconn internal/rediskey internal/wire pkg/session"},
	{"internal/slash", "internal/agents internal/protocol internal/wire pkg/session"},
	{"internal/outbox", "internal/backoff internal/deliveries internal/lease internal/printable internal/rediskey internal/strictjson internal/version internal/wire"},
	{"internal/record", "internal/agents internal/protocol internal/rediskey internal/script pkg/session"},
	{"pkg/worker", "internal/agents internal/agreement internal/backoff internal/lease internal/maintenance internal/protocol internal/recovery internal/redisconn internal/rediskey internal/rights internal/stream internal/wire pkg/agent pkg/resume pkg/session"},
	{"pkg/admin", "internal/deliveries internal/index internal/maintenance internal/protocol internal/record internal/rediskey internal/script internal/stream internal/wire pkg/session"},
	// The parts around a worker.
	{"internal/config", "internal/agents internal/printable internal/process/command internal/redisconn internal/strictjson internal/wire pkg/agent pkg/agent/... pkg/session"},
	{"internal/devredis", ""},
	{"internal/httpd", "internal/config internal/printable internal/redisconn"},
	{"internal/metrics", "internal/outbox internal/script internal/version pkg/admin pkg/agent pkg/session pkg/worker"},
	{"internal/trace", "internal/protocol internal/rediskey internal/version pkg/agent pkg/session pkg/worker"},
	{"internal/daemon", "internal/config internal/httpd internal/metrics internal/outbox internal/printable internal/process/guardian internal/redisconn"},
	// The library, the gateway, and the programs.
	{"internal/service", "internal/config internal/daemon internal/httpd internal/metrics internal/outbox internal/process/guardian internal/redisconn internal/trace pkg/admin pkg/agent pkg/session pkg/worker"},
	{"pkg/program", "internal/config internal/daemon internal/printable internal/process/confine internal/process/guardian internal/service pkg/agent"},
	{".", "internal/agents internal/backoff internal/boundedjson internal/index internal/maintenance internal/protocol internal/record internal/redisconn internal/rediskey internal/script internal/slash internal/stream internal/wire pkg/admin pkg/session"},
	{"internal/receipt", ". pkg/session"},
	{"internal/terminal", ". internal/printable internal/receipt internal/redisconn pkg/resume pkg/session"},
	{"docs", ""},
	{"internal/gateway/store", "internal/index internal/maintenance internal/protocol internal/rediskey internal/script internal/stream pkg/session"},
	{"internal/gateway", ". docs internal/gateway/store internal/httpd internal/outbox internal/receipt internal/redisconn internal/slash internal/strictjson internal/wire pkg/admin pkg/session"},
	{"internal/board", ". internal/boundedjson internal/gateway internal/printable pkg/admin pkg/session"},
	{"internal/gateway/openai", ". internal/agents internal/boundedjson internal/gateway internal/gateway/store internal/receipt internal/stream pkg/admin pkg/session"},
	{"cmd/...", "*"},
	{"docs/...", "*"},
	{"examples/...", "*"},
}

func TestImports(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, p := range packages(t) {
		if strings.HasPrefix(p.folder(), "test/") {
			continue
		}
		at := roomOf(p.folder())
		if at < 0 {
			t.Errorf("%s is in no room: say in rooms what it may import", p.ImportPath)
			continue
		}
		used[rooms[at].name] = true
		for _, folder := range p.ours() {
			to := roomOf(folder)
			if to == at && strings.HasSuffix(rooms[at].name, "/...") {
				t.Errorf("%s imports %s, its neighbour in one room", p.ImportPath, folder)
				continue
			}
			if to < 0 || !rooms[at].mayImport(to) {
				t.Errorf("%s may not import %s", p.ImportPath, folder)
				continue
			}
			used[rooms[at].name+" -> "+rooms[to].name] = true
		}
	}
	for i, r := range rooms {
		if !used[r.name] {
			t.Errorf("room %s is empty", r.name)
		}
		for name := range strings.FieldsSeq(r.imports) {
			if name == "*" {
				continue
			}
			if to := slices.IndexFunc(rooms, func(r room) bool { return r.name == name }); to < 0 || to >= i {
				t.Errorf("room %s: %s does not stand before it", r.name, name)
			}
			if !used[r.name+" -> "+name] {
				t.Errorf("room %s imports nothing of %s: take it from the list", r.name, name)
			}
		}
	}
}

// mayImport reports whether r names the room at this place of the list.
func (r room) mayImport(to int) bool {
	names := strings.Fields(r.imports)
	return slices.Contains(names, rooms[to].name) ||
		slices.Contains(names, "*") && to < slices.Index(rooms, r)
}

// TestReach follows imports to their end, to all packages that a program links.
func TestReach(t *testing.T) {
	t.Parallel()
	all := map[string]pkg{}
	for _, p := range list(t, "-deps", "./cmd/...", "./examples/...") {
		all[p.ImportPath] = p
	}
	for _, c := range []struct{ what, from string }{
		{"testing", "cmd/enqueue cmd/worker examples/custom-agent"},
		{"turnstile/test", "cmd/enqueue cmd/worker examples/custom-agent"},
		{"turnstile/internal/protocol/lua", "cmd/enqueue cmd/gateway cmd/worker examples/custom-agent"},
		{"github.com/hibiken/asynq", "cmd/enqueue"},
		{"github.com/landlock-lsm", "cmd/enqueue cmd/gateway"},
		{"turnstile/pkg/worker", "cmd/enqueue"},
		{"github.com/prometheus", "pkg/worker internal/protocol internal/slash pkg/admin"},
		{"go.opentelemetry.io", "pkg/worker internal/gateway internal/outbox cmd/enqueue"},
	} {
		for from := range strings.FieldsSeq(c.from) {
			if way := reach(all, ownPath+from, c.what); way != nil {
				t.Errorf("%s reaches %s: %s", from, c.what, strings.Join(way, " -> "))
			}
		}
	}
}

// reach returns a chain of imports from a package to another one, or a package below that, or nil.
func reach(all map[string]pkg, from, what string) []string {
	seen := map[string]bool{}
	var walk func(at string) []string
	walk = func(at string) []string {
		if at == what || strings.HasPrefix(at, what+"/") {
			return []string{at}
		}
		if seen[at] {
			return nil
		}
		seen[at] = true
		for _, next := range all[at].Imports {
			if way := walk(next); way != nil {
				return append([]string{at}, way...)
			}
		}
		return nil
	}
	return walk(from)
}

// roomOf returns the index of a folder's room: the one that names it, else the one with a matching
// pattern, else -1.
func roomOf(folder string) int {
	if i := slices.IndexFunc(rooms, func(r room) bool { return r.name == folder }); i >= 0 {
		return i
	}
	return slices.IndexFunc(rooms, func(r room) bool {
		above, ok := strings.CutSuffix(r.name, "...")
		return ok && strings.HasPrefix(folder, above)
	})
}

// ownPath is the path of this module, and a slash.
const ownPath = "turnstile/"

// pkg is a package in the output of go list.
type pkg struct {
	ImportPath string
	Imports    []string
}

// folder is the package's folder below the module's root; the root is ".".
func (p pkg) folder() string { return folderOf(p.ImportPath) }

func folderOf(importPath string) string {
	return path.Clean("./" + strings.TrimPrefix(importPath+"/", ownPath))
}

// ours are the folders of the module that p imports.
func (p pkg) ours() (folders []string) {
	for _, i := range p.Imports {
		if strings.HasPrefix(i+"/", ownPath) {
			folders = append(folders, folderOf(i))
		}
	}
	return folders
}

// packages are all packages of the module.
func packages(t *testing.T) []pkg {
	t.Helper()
	return list(t, "./...")
}

func list(t *testing.T, args ...string) (found []pkg) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Imports"}, args...)...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal("go list: ", err)
	}
	for read := json.NewDecoder(bytes.NewReader(out)); read.More(); {
		var p pkg
		if err := read.Decode(&p); err != nil {
			t.Fatal(fmt.Errorf("go list: %w", err))
		}
		found = append(found, p)
	}
	return found
}
