package protocol_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// step is one transition of a state machine and the script that makes it.
type step struct{ machine, from, to, script string }

func (s step) String() string {
	return fmt.Sprintf("%s: %s --> %s: %s", s.machine, s.from, s.to, s.script)
}

const outside = "[*]"

var (
	arrow    = regexp.MustCompile(`^(\S+) --> (\S+?)(?:: (.*))?$`)
	opening  = regexp.MustCompile(`^state (\w+) \{$`)
	inParens = regexp.MustCompile(`\([^)]*\)`)
)

// statesPage reads the diagrams of docs/internals/keys.md. A composite means its members.
func statesPage(t *testing.T) map[step]bool {
	t.Helper()
	page, err := os.ReadFile("../../docs/internals/keys.md")
	expect.OK(t, err)
	steps := map[step]bool{}
	diagrams := strings.Split(string(page), "```mermaid\nstateDiagram-v2\n")[1:]
	for _, d := range diagrams {
		d, _, _ = strings.Cut(d, "```")
		var machine, composite string
		members := map[string][]string{}
		for line := range strings.Lines(d) {
			line = strings.TrimSpace(line)
			if m, ok := strings.CutPrefix(line, "%% machine: "); ok {
				machine = m
			} else if m := opening.FindStringSubmatch(line); m != nil {
				composite = m[1]
			} else if line == "}" {
				composite = ""
			} else if composite != "" {
				members[composite] = append(members[composite], line)
			} else if m := arrow.FindStringSubmatch(line); m != nil {
				for _, script := range strings.Split(inParens.ReplaceAllString(m[3], ""), ",") {
					if script = strings.TrimSpace(script); script == "" {
						continue
					}
					from := members[m[1]]
					if from == nil {
						from = []string{m[1]}
					}
					for _, f := range from {
						steps[step{machine, f, m[2], script}] = true
					}
				}
			} else {
				t.Errorf("docs/internals/keys.md: what is %q?", line)
			}
		}
	}
	expect.Equal(t, "diagrams in docs/internals/keys.md", len(diagrams), 3)
	return steps
}

// The page names only scripts that exist, and each that changes a state.
func TestStatesPageNamesTheScripts(t *testing.T) {
	t.Parallel()
	named := map[string]bool{}
	for s := range statesPage(t) {
		named[s.script] = true
	}
	files, err := filepath.Glob("lua/*.lua")
	expect.OK(t, err)
	// The commands and library calls by which a script changes the state of a message, a session or
	// its resume record.
	changes := regexp.MustCompile(`'HSET', s\.task [^)]*'(state|quiet)'|'(DEL|UNLINK)', (s\.(task|sentinel|resume|run)|KEYS)\b|'SET', s\.sentinel|` +
		`'HSET', s\.run,[^)]*'(phase|nostart)'|'H(SET|DEL)', s\.resume|\b(take|forward|archive|archive_as_stopped|archive_stopped|requeue_message|return_untaken|store_interruption|leave_conversation)\(s\b`)
	var scripts []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".lua")
		scripts = append(scripts, name)
		text, err := os.ReadFile(file)
		expect.OK(t, err)
		if what := changes.FindString(regexp.MustCompile(`(?m)^\s*--.*$`).ReplaceAllString(string(text), "")); (what != "") != named[name] {
			t.Errorf("%s.lua: named in docs/internals/keys.md %v, changes a state %q", name, named[name], what)
		}
	}
	expect.List(t, "docs/internals/design.md's scripts", slices.Sorted(slices.Values(designPage(t, "design.md", "script")["Scripts"])), scripts...)
	for name := range named {
		if !slices.Contains(scripts, name) {
			t.Errorf("docs/internals/keys.md names %q, which is no script", name)
		}
	}
}

// observer notes the transitions that scripts make through a client.
type observer struct {
	b    *actors.Bench
	bare *redis.Client
	seen func(step)

	wrote func(table, field string) // called after each script for each stored field
}

func (o *observer) around(cmds []redis.Cmder, send func() error) error {
	name := actors.ScriptOf(cmds[0])
	if protocol.Scripts[name] == nil {
		return send()
	}
	name, _ = strings.CutSuffix(name, "_fast")
	before := o.states()
	err := send()
	after := o.states()
	o.fields()
	for what := range maps.All(after) {
		if before[what] == "" {
			before[what] = outside
		}
	}
	for what, from := range before {
		to := after[what]
		if to == "" {
			to = outside
		}
		if from != to {
			machine, _, _ := strings.Cut(what, " ")
			o.seen(step{machine, from, to, name})
		}
	}
	return err
}

// states are those of the session, of its resume record and of its messages, by the tables of the
// page.
func (o *observer) states() map[string]string {
	ctx, rdb, k := context.Background(), o.bare, o.b.Keys
	list := func(key string) []string { return rdb.LRange(ctx, key, 0, -1).Val() }
	run, resumes := rdb.HGetAll(ctx, k.Run()).Val(), rdb.HGetAll(ctx, k.Resume()).Val()
	clock := rdb.Time(ctx).Val().UnixMilli()
	pending, active := list(k.Pending()), list(k.Active())

	states := map[string]string{"session": "idle", "resume": "clean"}
	owner, phase := rdb.Get(ctx, k.Sentinel()).Val(), run["phase"]
	switch {
	case owner == "in doubt":
		states["session"] = "doubted"
	case owner != "" && (run["nostart"] == run["fence"] || resumes["pending"] == "1" && resumes["fence"] == run["fence"]):
		states["session"] = "interrupting"
	case owner != "":
		states["session"] = phase
	case phase == "parked":
		states["session"] = "parked"
	case phase == "starting" || phase == "running":
		states["session"] = "dead"
	case len(pending) > 0:
		head := pending[len(pending)-1]
		states["session"] = "ready"
		quiet, _, _ := strings.Cut(rdb.HGet(ctx, k.Task(head), "quiet").Val(), " ")
		if ms(quiet) > clock {
			states["session"] = "waiting"
		}
	case len(active) > 0:
		states["session"] = "ready" // a stock asynq.Server left it
	default:
		next := rdb.ZRangeWithScores(ctx, k.Scheduled(), 0, 0).Val()
		if len(next) > 0 && int64(next[0].Score)*1000 > clock {
			states["session"] = "waiting"
		} else if len(next) > 0 {
			states["session"] = "ready"
		}
	}
	switch {
	case resumes["suspended"] == "1":
		states["resume"] = "suspended"
	case resumes["pending"] == "1":
		states["resume"] = "marked"
	}

	for _, name := range rdb.Keys(ctx, k.TaskPrefix()+"*").Val() {
		id := strings.TrimPrefix(name, k.TaskPrefix())
		task := rdb.HGetAll(ctx, name).Val()
		state := task["state"]
		var end session.Event
		_ = json.Unmarshal([]byte(task["result"]), &end)
		switch {
		case state == "pending" && task["quiet"] != "":
			state = "collected"
		case state == "active" && strings.Contains(rdb.HGet(ctx, k.Followups(), strings.TrimPrefix(id, rediskey.IDPrefix(actors.Key))).Val(), `"state":"steered"`):
			state = "steered"
		case state == "archived" && end.Status == session.StatusInterrupted && !strings.HasPrefix(end.Error, "interrupted"):
			state = "rolled_back"
		case state == "archived" || state == "completed":
			state = string(end.Status)
		}
		states["message "+id] = state
	}
	return states
}

// fields reports every field of the session's hashes and JSON values, by the tables of
// docs/internals/keys.md.
func (o *observer) fields() {
	ctx, rdb, k := context.Background(), o.bare, o.b.Keys
	for table, key := range map[string]string{"run": k.Run(), "session": k.Record(), "resume": k.Resume(), "journal": k.Journal()} {
		for _, field := range rdb.HKeys(ctx, key).Val() {
			switch field[:min(2, len(field))] {
			case "e:":
				field = "e:N"
			case "s:":
				field = "s:KEY"
			case "a:":
				field = "a:KEY"
			case "p:":
				field = "p:KEY"
			}
			o.wrote(table, field)
		}
	}
	for _, name := range rdb.Keys(ctx, k.TaskPrefix()+"*").Val() {
		for _, field := range rdb.HKeys(ctx, name).Val() {
			if !slices.Contains([]string{"msg", "state", "pending_since", "result", "unique_key"}, field) {
				o.wrote("task", field)
			}
		}
	}
	for _, field := range rdb.HKeys(ctx, k.Deliveries()).Val() {
		if kind, _, _ := strings.Cut(field, " "); ms(kind) == 0 { // else the text of a record
			o.wrote("deliveries", kind)
		}
	}
	texts := map[string][]string{"followups": rdb.HVals(ctx, k.Followups()).Val(), "state": {rdb.Get(ctx, k.State()).Val()}}
	for table, values := range texts {
		for _, text := range values {
			var object map[string]any
			_ = json.Unmarshal([]byte(text), &object)
			for field := range object {
				o.wrote(table, field)
			}
		}
	}
}

// designPage returns the names in the tables of a page of docs/internals/ with this head of the first column,
// by the heading above.
func designPage(t *testing.T, name, first string) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/internals/" + name)
	expect.OK(t, err)
	names := map[string][]string{}
	var heading string
	within := false
	for line := range strings.Lines(string(page)) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && line[0] == '#' {
			heading = strings.TrimSpace(title)
		}
		switch {
		case strings.HasPrefix(line, "| "+first+" |"):
			within = true
		case !strings.HasPrefix(line, "|"):
			within = false
		case within:
			for _, m := range regexp.MustCompile("`([\\w:]+)`").FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
				names[heading] = append(names[heading], m[1])
			}
		}
	}
	return names
}

func ms(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// TestStatesPage compares the scripts' steps and fields with docs/internals/keys.md, both ways, and the events
// with the schema of docs/events.md.
func TestStatesPage(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	page, events := statesPage(t), readEventSchema(t)
	var mu sync.Mutex
	seen := map[step]bool{}
	fields := map[string]map[string]bool{}
	t.Run("lives", func(t *testing.T) {
		watch := func(name string, live func(b *actors.Bench)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := actors.NewBench(t)
				options, err := redis.ParseURL(redistest.URL(t))
				expect.OK(t, err)
				bare := redis.NewClient(options)
				defer bare.Close()
				o := &observer{b: b, bare: bare}
				o.seen = func(s step) {
					mu.Lock()
					defer mu.Unlock()
					seen[s] = true
					if !page[s] {
						t.Errorf("docs/internals/keys.md lacks %s", s)
					}
				}
				o.wrote = func(table, field string) {
					mu.Lock()
					defer mu.Unlock()
					if fields[table] == nil {
						fields[table] = map[string]bool{}
					}
					fields[table][field] = true
				}
				b.Redis.AddHook(actors.Hook(o.around))
				live(b)
				for _, entry := range bare.XRange(context.Background(), b.Keys.Events(), "-", "+").Val() {
					for field, value := range entry.Values {
						if text, _ := value.(string); field == "s" || field == "e" {
							events.check(t, text)
						} else {
							t.Errorf("an event has the field %q", field)
						}
					}
				}
			})
		}
		for _, s := range situations() {
			watch(s.script+"/"+s.name, func(b *actors.Bench) { expect.OK(b, s.prepare(b)()) })
		}
		for name, live := range lives() {
			watch(name, live)
		}
	})
	for s := range page {
		if !seen[s] {
			t.Errorf("docs/internals/keys.md has %s, which no script did", s)
		}
	}
	tables := designPage(t, "keys.md", "field")
	for _, table := range slices.Sorted(maps.Keys(fields)) {
		written := slices.Sorted(maps.Keys(fields[table]))
		documented := slices.Sorted(slices.Values(tables[table]))
		expect.List(t, "docs/internals/keys.md's fields of "+table, documented, written...)
	}
	expect.Equal(t, "tables of fields in docs/internals/keys.md", len(tables), len(fields))
}
