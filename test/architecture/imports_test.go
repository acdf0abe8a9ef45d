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
	// Leaves: text from outside, pauses, the version, and the types that users see.
	{"internal/text/boundedjson", ""},
	{"internal/text/halves", ""},
	{"internal/text/printable", ""},
	{"internal/text/pattern", ""},
	{"internal/text/frame", ""},
	{"internal/backoff", ""},
	{"internal/version", ""},
	{"pkg/session", "internal/text/pattern"},
	{"internal/text/strictjson", "internal/text/boundedjson internal/text/printable pkg/session"},
	// Redis: connections, scripts, the servers of worker --dev.
	{"internal/redis/redisconn", ""},
	{"internal/redis/script", "internal/backoff internal/redis/redisconn"},
	{"internal/redis/devredis", ""},
	// The session protocol: keys and records, scripts, moves, and the walks over all sessions.
	{"internal/protocol/rediskey", ""},
	{"internal/protocol/lease", ""},
	{"internal/protocol/wire", "internal/text/boundedjson pkg/session"},
	{"internal/protocol/agents", "pkg/session"},
	{"internal/protocol/tenants", "internal/text/strictjson internal/protocol/agents"},
	{"internal/protocol/agreement", "internal/version internal/protocol/rediskey"},
	{"internal/protocol/rights", "internal/redis/redisconn internal/protocol/rediskey"},
	{"internal/protocol/lua", "internal/redis/script"},
	{"internal/protocol/lua/generate", "internal/protocol/lua"},
	{"internal/protocol/scripts", "internal/redis/script internal/protocol/rediskey"},
	{"internal/protocol/index", "pkg/session internal/redis/script internal/protocol/rediskey internal/protocol/scripts"},
	{"internal/protocol/stream", "pkg/session internal/redis/script internal/protocol/rediskey internal/protocol/scripts"},
	{"internal/protocol/deliveries", "internal/text/boundedjson internal/redis/redisconn internal/redis/script internal/protocol/rediskey internal/protocol/scripts internal/protocol/index internal/protocol/stream"},
	{"pkg/resume", "pkg/session internal/redis/script internal/protocol/rediskey"},
	{"internal/protocol", "internal/text/boundedjson pkg/session internal/redis/redisconn internal/redis/script internal/protocol/rediskey internal/protocol/lease internal/protocol/wire internal/protocol/agents internal/protocol/tenants internal/protocol/scripts internal/protocol/index internal/protocol/stream internal/protocol/deliveries pkg/resume"},
	{"internal/protocol/record", "internal/redis/redisconn pkg/session internal/redis/script internal/protocol/rediskey internal/protocol/agents internal/protocol"},
	{"internal/protocol/recovery", "internal/redis/redisconn internal/protocol/rediskey internal/protocol/index internal/protocol/deliveries internal/protocol"},
	{"internal/protocol/maintenance", "pkg/session internal/redis/redisconn internal/protocol/rediskey internal/protocol/wire internal/protocol/index internal/protocol/deliveries internal/protocol"},
	// The lock.
	{"pkg/lockguard", "internal/redis/redisconn internal/redis/script internal/protocol/rediskey internal/protocol/lease"},
	// Agents: their interface, processes, directories, and adapters.
	{"pkg/agent", "internal/text/frame pkg/session"},
	{"internal/process/guardian", ""},
	{"internal/process/paced", ""},
	{"internal/process/workspace", "pkg/agent"},
	{"internal/process/command", "pkg/agent internal/process/guardian internal/process/workspace"},
	{"internal/process/confine", "internal/process/guardian internal/process/command"},
	{"internal/mcp", "internal/backoff internal/text/boundedjson internal/text/pattern internal/version pkg/session internal/text/strictjson pkg/agent internal/process/command"},
	{"pkg/agent/...", "internal/mcp internal/text/boundedjson internal/text/frame internal/text/halves internal/backoff internal/version pkg/session internal/text/strictjson internal/protocol/wire pkg/agent internal/process/guardian internal/process/paced internal/process/workspace internal/process/command"},
	// Who runs, operates and sends; deliveries; what people type.
	{"internal/outbox", "internal/text/printable internal/backoff internal/version internal/text/strictjson internal/protocol/rediskey internal/protocol/lease internal/protocol/wire internal/protocol/deliveries"},
	{"internal/turnlog", "pkg/session internal/protocol/lease internal/protocol/wire internal/protocol pkg/agent"},
	{"pkg/worker", "internal/backoff pkg/session internal/redis/redisconn internal/protocol/rediskey internal/protocol/lease internal/protocol/wire internal/protocol/agents internal/protocol/tenants internal/protocol/agreement internal/protocol/rights internal/protocol/stream internal/protocol internal/protocol/recovery internal/protocol/maintenance pkg/resume pkg/agent internal/turnlog"},
	{"pkg/admin", "internal/text/printable internal/redis/redisconn pkg/session internal/redis/script internal/protocol/rediskey internal/protocol/wire internal/protocol/tenants internal/protocol/index internal/protocol/stream internal/protocol/deliveries internal/protocol internal/protocol/record internal/protocol/maintenance"},
	{"internal/chat/slash", "pkg/session internal/protocol/wire internal/protocol/agents internal/protocol"},
	{".", "internal/text/boundedjson internal/backoff pkg/session internal/redis/redisconn internal/redis/script internal/protocol/rediskey internal/protocol/wire internal/protocol/agents internal/protocol/index internal/protocol/stream internal/protocol internal/protocol/record internal/protocol/maintenance pkg/admin internal/chat/slash"},
	{"internal/chat/receipt", "pkg/session ."},
	{"internal/chat/terminal", "internal/text/printable pkg/session internal/redis/redisconn pkg/resume . internal/chat/receipt"},
	// HTTP for clients.
	{"docs", ""},
	{"internal/http/crowd", ""},
	{"internal/http/store", "pkg/session internal/redis/script internal/protocol/rediskey internal/protocol/index internal/protocol/stream internal/protocol internal/protocol/maintenance"},
	{"internal/http/gateway", "internal/text/printable pkg/session internal/text/pattern internal/text/strictjson internal/redis/redisconn internal/protocol/wire internal/protocol/agents internal/outbox pkg/admin internal/chat/slash . internal/chat/receipt docs internal/http/crowd internal/http/store"},
	{"internal/http/board", "internal/text/boundedjson internal/text/printable pkg/session internal/redis/redisconn pkg/admin . internal/http/gateway"},
	{"internal/http/openai", "internal/text/frame internal/text/boundedjson pkg/session internal/protocol/wire internal/protocol/agents internal/protocol/stream pkg/admin . internal/chat/receipt internal/http/store internal/http/gateway"},
	// What a program has around its work, and the programs.
	{"internal/program/config", "internal/text/printable pkg/session internal/text/strictjson internal/redis/redisconn internal/protocol/wire internal/protocol/agents pkg/agent internal/process/command pkg/agent/..."},
	{"internal/program/httpd", "internal/text/printable internal/redis/redisconn internal/http/crowd internal/program/config"},
	{"internal/program/metrics", "internal/version pkg/session internal/redis/script pkg/agent internal/outbox pkg/worker pkg/admin"},
	{"internal/program/trace", "internal/version pkg/session internal/protocol/rediskey internal/protocol pkg/agent pkg/worker"},
	{"internal/program/daemon", "internal/text/printable internal/redis/redisconn internal/process/guardian internal/process/workspace internal/outbox internal/program/config internal/program/httpd internal/program/metrics"},
	{"internal/program/service", "pkg/session internal/redis/redisconn internal/redis/devredis pkg/agent internal/process/guardian internal/outbox pkg/worker pkg/admin internal/program/config internal/program/httpd internal/program/metrics internal/program/trace internal/program/daemon"},
	{"internal/program/operator", "internal/text/printable internal/version pkg/session internal/redis/redisconn internal/protocol/wire internal/protocol/agents internal/protocol/tenants internal/protocol/agreement internal/process/workspace pkg/admin internal/chat/slash . internal/chat/receipt internal/chat/terminal internal/http/gateway internal/program/config internal/program/httpd internal/program/metrics internal/program/daemon internal/program/service"},
	{"pkg/program", "internal/text/printable internal/redis/devredis pkg/agent internal/process/guardian internal/process/confine internal/program/config internal/program/daemon internal/program/service internal/program/operator"},
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
		{"github.com/prometheus", "pkg/worker internal/protocol internal/chat/slash pkg/admin"},
		{"go.opentelemetry.io", "pkg/worker internal/http/gateway internal/outbox cmd/enqueue"},
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
