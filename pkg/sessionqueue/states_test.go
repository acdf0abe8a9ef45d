package sessionqueue_test

import (
	"context"
	"encoding/json"
	"errors"
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
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/testredis"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	sq "turnstile/pkg/sessionqueue"
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

// statesPage reads the diagrams of docs/states.md. Composites stand for their
// members.
func statesPage(t *testing.T) map[step]bool {
	t.Helper()
	page, err := os.ReadFile("../../docs/states.md")
	must(t, err)
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
				t.Errorf("docs/states.md: what is %q?", line)
			}
		}
	}
	equal(t, "diagrams in docs/states.md", len(diagrams), 3)
	return steps
}

// The page names scripts that exist, and each that changes a state.
func TestStatesPageNamesTheScripts(t *testing.T) {
	t.Parallel()
	named := map[string]bool{}
	for s := range statesPage(t) {
		named[s.script] = true
	}
	files, err := filepath.Glob("lua/*.lua")
	must(t, err)
	// What a script does that changes a state of a message, a session or its resume
	// record; take, forward and archive are line.lua's and archive.lua's.
	changes := regexp.MustCompile(`'HSET', task [^)]*'(state|quiet)'|'DEL', (task|key|sentinel|resume|run)\b|'SET', sentinel|` +
		`'HSET', run,[^)]*'(phase|nostart)'|'H(SET|DEL)', resume|\b(take|forward|archive)\(`)
	pieces := []string{"archive", "asked", "lease", "line", "owner", "session"} // of scripts
	var scripts []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".lua")
		if slices.Contains(pieces, name) {
			continue
		}
		scripts = append(scripts, name)
		text, err := os.ReadFile(file)
		must(t, err)
		if what := changes.FindString(regexp.MustCompile(`(?m)^\s*--.*$`).ReplaceAllString(string(text), "")); (what != "") != named[name] {
			t.Errorf("%s.lua: named in docs/states.md %v, changes a state %q", name, named[name], what)
		}
	}
	for name := range named {
		if !slices.Contains(scripts, name) {
			t.Errorf("docs/states.md names %q, which is no script", name)
		}
	}
}

// observer notes which transitions the scripts make that pass through a client.
type observer struct {
	b    *bench
	bare *redis.Client
	seen func(step)
}

func (o *observer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (o *observer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return o.around([]redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

func (o *observer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return o.around(cmds, func() error { return next(ctx, cmds) })
	}
}

func (o *observer) around(cmds []redis.Cmder, send func() error) error {
	for name, script := range sq.Scripts {
		if !testredis.Script(script.Hash())(cmds[0]) {
			continue
		}
		if name == "fail" {
			name = "finish"
		}
		before := o.states()
		err := send()
		after := o.states()
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
	return send()
}

// states are those of the session, of its resume record and of its messages, as
// the tables of the page define them.
func (o *observer) states() map[string]string {
	ctx, rdb, k := context.Background(), o.bare, o.b.k
	list := func(key string) []string { return rdb.LRange(ctx, key, 0, -1).Val() }
	run, resumes := rdb.HGetAll(ctx, k.Run()).Val(), rdb.HGetAll(ctx, k.Resume()).Val()
	clock := rdb.Time(ctx).Val().UnixMilli()
	hold, held, _ := strings.Cut(run["hold"], " ")
	isHeld := func(id string) bool { return id == held && ms(hold) > clock }
	pending, active := list(k.Pending()), list(k.Active())

	states := map[string]string{"session": "idle", "resume": "clean"}
	owner, phase := rdb.Get(ctx, k.Sentinel()).Val(), run["phase"]
	switch {
	case owner != "" && (run["nostart"] == run["fence"] || resumes["pending"] == "1" && resumes["fence"] == run["fence"]):
		states["session"] = "cut_off"
	case owner != "":
		states["session"] = phase
	case phase == "starting" || phase == "running":
		states["session"] = "dead"
	case len(pending) > 0:
		head := pending[len(pending)-1]
		states["session"] = "ready"
		quiet, _, _ := strings.Cut(rdb.HGet(ctx, k.Task(head), "quiet").Val(), " ")
		if isHeld(head) || ms(quiet) > clock {
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
		var end sq.Event
		_ = json.Unmarshal([]byte(task["result"]), &end)
		switch {
		case state == "pending" && isHeld(id):
			state = "retried"
		case state == "pending" && task["quiet"] != "":
			state = "collected"
		case state == "active" && strings.Contains(rdb.HGet(ctx, k.Followups(), strings.TrimPrefix(id, session.IDPrefix(key))).Val(), `"state":"steered"`):
			state = "steered"
		case state == "archived" && end.Status == sq.StatusInterrupted:
			state = "rolled_back"
		case state == "archived" || state == "completed":
			state = string(end.Status)
		}
		states["message "+id] = state
	}
	return states
}

func ms(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// lives are what the situations of the scripts leave out.
func lives() map[string]func(b *bench) {
	later := func(b *bench, id string) { // a delayed message that is not due
		_, err := b.client.Submit(b.ctx, key, session.Message{ID: id, Text: id}, sq.Delay(time.Hour))
		must(b, err)
	}
	forgetful := func(c *sq.Config) { c.Retention = 0 }
	with := func(b *bench, change setup) {
		b.c = newWorker(b.T, b.rdb, "other", change)
	}
	limit := func(b *bench, n int) {
		with(b, func(c *sq.Config) { c.StuckLimit = n })
	}
	end := func(b *bench, h *sq.Hold, e sq.End) { _, err := h.Finish(b.ctx, e); must(b, err) }
	stop := func(b *bench) { _, err := b.client.Stop(b.ctx, key); must(b, err) }
	mark := func(b *bench, h *sq.Hold) { must(b, b.c.Mark(b.ctx, []*sq.Hold{h}, "drain")[0].Err) }
	erase := func(b *bench) { must(b, b.client.Erase(b.ctx, key)) }
	rotate := func(b *bench) { _, err := b.client.Rotate(b.ctx, key, ""); must(b, err) }
	forget := func(b *bench) {
		must(b, sq.Scripts["forget"].Run(b.ctx, b.rdb, sq.KeysOf(key, b.info().SessionID), b.k.TaskPrefix(), -1).Err())
	}
	noted := func(note func(context.Context, redis.Scripter, string) (bool, error), then func(*bench)) func(*bench) {
		return func(b *bench) {
			with(b, forgetful)
			b.say("a")
			b.drain()
			if ok, err := note(b.ctx, b.rdb, key); !ok || err != nil {
				b.Fatalf("not noted: %v", err)
			}
			then(b)
		}
	}
	steered := func(b *bench) *sq.Hold { // a turn with a message that was steered in
		b.say("a")
		h := b.start()
		b.say("b", session.ModeSteer)
		_, err := h.Steer(b.ctx)
		must(b, err)
		return h
	}
	marked := func(ctx context.Context, rdb redis.Scripter, s string) (bool, error) {
		return resume.Mark(ctx, rdb, s, "")
	}

	all := map[string]func(b *bench){
		"stopped while it waits": func(b *bench) { b.say("a"); must(b, b.start().Retry(b.ctx, errors.New("x"), time.Hour)); stop(b) },
		"erased when ready":      func(b *bench) { b.say("a"); erase(b) },
		"erased when delayed":    func(b *bench) { later(b, "a"); erase(b) },
		"erased when retried":    func(b *bench) { b.say("a"); must(b, b.start().Retry(b.ctx, errors.New("x"), time.Hour)); erase(b) },
		"immediate, dies": func(b *bench) {
			with(b, func(c *sq.Config) { c.Immediate = true })
			b.say("a")
			b.claim()
			b.die()
			b.claim()
		},
		"stopped, dead, later": func(b *bench) {
			b.say("a")
			b.start()
			stop(b)
			b.die()
			later(b, "b")
			b.claimNothing("it is later")
		},
		"starting, failed":  func(b *bench) { b.say("a"); must(b, b.claim().Retry(b.ctx, errors.New("x"), time.Hour)) },
		"starting, drained": func(b *bench) { b.say("a"); must(b, b.claim().Requeue(b.ctx, "x")) },
		"cut off, failed": func(b *bench) {
			b.say("a")
			h := b.start()
			mark(b, h)
			must(b, h.Retry(b.ctx, errors.New("x"), time.Hour))
		},
		"cut off, drained":       func(b *bench) { b.say("a"); h := b.start(); mark(b, h); must(b, h.Requeue(b.ctx, "x")) },
		"suspended by a mark":    func(b *bench) { limit(b, 1); b.say("a"); h := b.start(); mark(b, h); b.finish(h) },
		"suspended by a requeue": func(b *bench) { limit(b, 1); b.say("a"); must(b, b.start().Requeue(b.ctx, "x")); b.claim() },
		"suspended by a death":   func(b *bench) { limit(b, 1); b.say("a"); b.start(); b.die(); b.claimNothing("given up") },
		"again, by a mark":       func(b *bench) { limit(b, 2); b.say("a"); must(b, b.start().Requeue(b.ctx, "x")); mark(b, b.start()) },
		"again, by a requeue": func(b *bench) {
			limit(b, 2)
			b.say("a")
			must(b, b.start().Requeue(b.ctx, "x"))
			must(b, b.start().Requeue(b.ctx, "x"))
		},
		"again, by a death": func(b *bench) {
			limit(b, 2)
			b.say("a")
			b.start()
			b.die()
			b.start()
			b.die()
			b.claimNothing("given up")
		},
		"again, others wait": func(b *bench) {
			limit(b, 2)
			b.sayAll("a", "b")
			b.start()
			b.die()
			b.start()
			b.die()
			b.claim()
		},
		"marked and rotated":      noted(marked, rotate),
		"marked and erased":       noted(marked, erase),
		"marked and forgotten":    noted(marked, forget),
		"suspended and rotated":   noted(resume.Suspend, rotate),
		"suspended and erased":    noted(resume.Suspend, erase),
		"suspended and forgotten": noted(resume.Suspend, forget),
		"collected and stopped": func(b *bench) {
			b.say("a")
			b.start()
			b.say("b", session.ModeCollect)
			stop(b)
		},
		"collected and dropped": func(b *bench) {
			with(b, func(c *sq.Config) { c.Line.Cap = 1; c.Line.Drop = "old" })
			b.say("a")
			b.start()
			b.say("b", session.ModeCollect)
			b.say("c")
		},
		"collected and erased": func(b *bench) {
			b.say("a")
			h := b.start()
			b.say("b", session.ModeCollect)
			end(b, h, sq.End{Status: sq.StatusDone, Release: true})
			erase(b)
		},
		"several that cannot be read": func(b *bench) {
			b.say("a")
			h := b.start()
			b.collected("b", "c")
			b.finish(h)
			must(b, h.Dismiss(b.ctx, h.Turn().Collected[0], sq.StatusFailed, "broken"))
		},
		"a steered turn is given back": func(b *bench) { must(b, steered(b).Requeue(b.ctx, "x")) },
		"a steered turn is erased":     func(b *bench) { steered(b); b.die(); erase(b) },
		"a steered turn that did not take it": func(b *bench) {
			end(b, steered(b), sq.End{Status: sq.StatusDone, Untaken: []string{"b"}, Release: true})
		},
		"a collected turn dies": func(b *bench) {
			b.say("a")
			h := b.start()
			b.collected("b", "c")
			b.finish(h)
			b.die()
			b.claim()
		},
		"several are due": func(b *bench) { b.delayed("a"); b.delayed("b"); b.claim() },
		"dead letters are run again": func(b *bench) {
			b.sayAll("a", "b")
			h := b.start()
			end(b, h, sq.End{Status: sq.StatusFailed, Error: "x"})
			end(b, h, sq.End{Status: sq.StatusStopped, Error: "x"})
			_, err := b.client.Rerun(b.ctx, key)
			must(b, err)
		},
	}
	// What a turn in each phase may end in, and what comes behind it.
	for name, phase := range map[string]func(b *bench) *sq.Hold{
		"starting": (*bench).claim,
		"running":  (*bench).start,
		"cut off":  func(b *bench) *sq.Hold { h := b.start(); mark(b, h); return h },
	} {
		all[name+", the last"] = func(b *bench) { b.say("a"); end(b, phase(b), sq.End{Status: sq.StatusExpired, Error: "x"}) }
		all[name+", released"] = func(b *bench) { b.sayAll("a", "b"); end(b, phase(b), sq.End{Status: sq.StatusDone, Release: true}) }
		all[name+", a delayed one"] = func(b *bench) { b.say("a"); h := phase(b); later(b, "b"); end(b, h, sq.End{Status: sq.StatusDone}) }
	}
	// The ends of a turn into which a message was steered, by its owner and by the
	// claim that finds it dead.
	for status, rollback := range map[sq.Status]bool{sq.StatusDone: false, sq.StatusFailed: false, sq.StatusStopped: false, sq.StatusInterrupted: true} {
		all["steered, "+string(status)] = func(b *bench) {
			end(b, steered(b), sq.End{Status: status, Error: "x", Rollback: rollback})
		}
	}
	all["steered, cut short"] = func(b *bench) { end(b, steered(b), sq.End{Status: sq.StatusInterrupted}) }
	for name, asked := range map[string]func(b *bench){
		"redelivered": func(*bench) {},
		"given up":    func(b *bench) { limit(b, 1) },
		"stopped":     stop,
		"interrupted": func(b *bench) { b.say("c", session.ModeInterrupt) },
		"not kept":    func(b *bench) { b.say("c", session.ModeInterrupt); with(b, forgetful) },
		"rolled back": func(b *bench) { b.say("c", session.ModeRollback) },
	} {
		all["steered, dead, "+name] = func(b *bench) {
			steered(b)
			asked(b)
			b.die()
			_, err := b.c.Claim(b.ctx, []string{key})
			must(b, err)
		}
	}
	all["steered, not kept"] = func(b *bench) {
		with(b, forgetful)
		b.finish(steered(b))
	}
	// Every end of a message, and how it is forgotten.
	for name, then := range map[string]func(*bench){"erased": erase, "purged": func(b *bench) {
		for _, id := range b.rdb.ZRange(b.ctx, b.k.Completed(), 0, -1).Val() {
			b.rdb.ZAdd(b.ctx, b.k.Completed(), redis.Z{Score: 1, Member: id})
		}
		must(b, sq.Scripts["purge"].Run(b.ctx, b.rdb, sq.KeysOf(key, ""), b.k.TaskPrefix(), 100, -7200).Err())
	}} {
		all["everything, "+name] = func(b *bench) {
			with(b, func(c *sq.Config) { c.Line.Cap = 6; c.Line.Drop = "old" })
			b.sayAll("done", "dropped", "interrupted", "failed", "expired", "rolled-back", "stopped")
			h := b.start()
			b.say("dropping")
			for _, e := range []sq.End{
				{Status: sq.StatusDone}, {Status: sq.StatusInterrupted}, {Status: sq.StatusFailed}, {Status: sq.StatusExpired},
				{Status: sq.StatusInterrupted, Rollback: true, Release: true},
			} {
				end(b, h, e)
			}
			stop(b)
			then(b)
		}
	}
	return all
}

// TestStatesPage compares what the scripts do with docs/states.md, both ways.
func TestStatesPage(t *testing.T) {
	t.Parallel()
	page := statesPage(t)
	var mu sync.Mutex
	seen := map[step]bool{}
	t.Run("lives", func(t *testing.T) {
		watch := func(name string, live func(b *bench)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				options, err := redis.ParseURL(testredis.URL(t))
				must(t, err)
				bare := redis.NewClient(options)
				defer bare.Close()
				b.rdb.AddHook(&observer{b, bare, func(s step) {
					mu.Lock()
					defer mu.Unlock()
					seen[s] = true
					if !page[s] {
						t.Errorf("docs/states.md lacks %s", s)
					}
				}})
				live(b)
			})
		}
		for _, s := range situations() {
			watch(s.script+"/"+s.name, func(b *bench) { must(b, s.prepare(b)()) })
		}
		for name, live := range lives() {
			watch(name, live)
		}
	})
	for s := range page {
		if !seen[s] {
			t.Errorf("docs/states.md has %s, which no script did", s)
		}
	}
}
