package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnstile"

	"turnstile/internal/process/confine"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	processes "turnstile/test/program"
	"turnstile/test/redistest"
)

// killPoints are points of a turn at which a worker dies with its program.
var killPoints = map[string]struct {
	words   string
	began   bool   // the model's tool has begun
	journal string // Turnstile has this
	record  string // the program has this in its session; by default the words
	knows   string // the program must know this
	drained bool   // the worker is not killed, but drained
	apart   bool   // the program is confined
	twice   bool   // the next worker dies, too
}{
	"before the first reply":   {words: "please never end"},
	"in a reply":               {words: "please stop halfway"},
	"in a tool":                {words: "please use the slow tool", began: true, knows: "sleep 1000"},
	"after a tool":             {words: "please use it then silence", journal: "from-42", knows: "from-42"},
	"after a tool, written":    {words: "please use it then silence", record: "from-42", knows: "from-42"},
	"after the reply":          {words: "please say your last words"},
	"after the reply, written": {words: "please say your last words", record: "These were all.", knows: "These were all."},
	"in a tool, drained":       {words: "please use the slow tool", began: true, knows: "sleep 1000", drained: true},
	"after a tool, drained":    {words: "please use it then silence", record: "from-42", knows: "from-42", drained: true},
	"after a tool, confined":   {words: "please use it then silence", record: "from-42", knows: "from-42", apart: true},
	"twice":                    {words: "please use it then silence, and die twice", record: "from-42", knows: "from-42", twice: true},
}

// A worker dies with its program, at each point of a turn. The next worker's program has the user's words once, has
// the results of the tools that have ended, learns which tools may have happened, and replies.
func TestRealProgramsGoOn(t *testing.T) {
	t.Parallel()
	for _, r := range reals {
		for name, point := range killPoints {
			if programs[r.kind].record == nil {
				continue
			}
			t.Run(string(r.kind)+"/"+name, func(t *testing.T) {
				t.Parallel()
				if r.kind == Codex {
					r.options = []string{"exec", "--dangerously-bypass-approvals-and-sandbox"}
				}
				isolation := agent.Isolation{}
				if point.apart {
					if err := confine.Check(); err != nil {
						t.Skipf("NOT TESTED: %v", err)
					}
					isolation.Level = agent.IsolationConfined
				}
				g := r.startWith(t, isolation)
				key := turn("").Session
				rdb := redistest.New(t)
				chat := actors.NewClient(rdb).Session(key)
				ctx, cancel := context.WithTimeout(t.Context(), 2*expect.Patience)
				defer cancel()
				send := func(id, text string) {
					_, err := chat.Send(ctx, turnstile.Message{ID: id, Text: text})
					expect.OK(t, err)
				}
				reply := func(id string) string {
					outcome, err := chat.Wait(ctx, id)
					expect.OK(t, err)
					expect.Equal(t, "how it ended", outcome.Status, session.StatusDone)
					return outcome.Reply
				}
				first := g.worker(t)
				send("m1", "first")
				expect.Equal(t, "the first reply", reply("m1"), "Heard 1: first")
				send("m2", point.words)
				expect.Soon(t, "the turn comes to its point", func() bool {
					effects, _ := filepath.Glob(g.workspace + "/*/effects")
					select {
					case <-g.stuck:
						return true
					default:
						return point.began && len(effects) > 0
					}
				})
				expect.Soon(t, "the program has the words", func() bool { return g.wrote(cmp.Or(point.record, point.words)) })
				expect.Soon(t, "the journal has the tool", func() bool {
					return point.journal == "" || strings.Contains(fmt.Sprint(rdb.HGetAll(ctx, rediskey.For(key).Journal()).Val()), point.journal)
				})
				if point.drained {
					first.Signal(syscall.SIGTERM)
				} else {
					first.Signal(syscall.SIGKILL)
				}
				state := rdb.Get(ctx, rediskey.For(key).State()).Val()
				second := g.worker(t)
				if point.twice {
					expect.Soon(t, "it goes on", func() bool { return g.wentOn() == 1 })
					expect.Soon(t, "the program has the request", func() bool { return g.wrote("No new message follows") })
					second.Signal(syscall.SIGKILL)
					g.worker(t)
				}
				expect.Equal(t, "the reply", reply("m2"), "I went on.")
				calls := g.seen()
				last := calls[len(calls)-1]
				said := strings.Join(last.texts, "\n")
				if strings.Count(said, point.words) != 1 || g.wentOn() == 0 || !strings.Contains(last.body, point.knows) {
					for _, c := range calls {
						t.Logf("the model has read %q", c.texts)
					}
					t.Errorf("the state was %s, the model reads\n%s", state, last.body)
				}
				t.Logf("the model reads %q", last.texts)
				send("m3", "and now?")
				if got := reply("m3"); !strings.HasSuffix(got, "| and now?") {
					t.Errorf("the next reply is %q", got)
				}
			})
		}
	}
}

// worker starts a worker that runs the program.
func (g *rig) worker(t *testing.T, more ...string) *processes.Process {
	t.Helper()
	settings := []string{
		"REDIS_URL=" + redistest.URL(t), "TURNSTILE_LOG_LEVEL=debug", "TURNSTILE_SENTINEL_TTL=" + expect.Lease(time.Second).String(), "TURNSTILE_DRAIN_TIMEOUT=0",
		"TURNSTILE_AGENT=" + string(g.kind), "TURNSTILE_MODEL=" + g.config.Model, "TURNSTILE_WORKSPACE_DIR=" + g.workspace,
		"TURNSTILE_AGENT_COMMAND='" + strings.Join(g.config.Command, "' '") + "'",
	}
	if own := g.config.Isolation; own.Level != "" {
		settings = append(settings, "TURNSTILE_ISOLATION="+string(own.Level), fmt.Sprintf("TURNSTILE_CONFINED_PORTS=%d", own.Ports[0]))
	}
	return processes.Start(t, processes.Command(t, processes.Build(t, "turnstile/cmd/worker"), append(settings, more...)))
}

// wentOn is how often the program has asked a model to go on.
func (g *rig) wentOn() (n int) {
	for _, c := range g.seen() {
		if strings.Contains(c.texts[len(c.texts)-1], "No new message follows") {
			n++
		}
	}
	return n
}

// wrote reports whether the program has a text in its session.
func (g *rig) wrote(text string) bool {
	for _, pattern := range []string{"/.claude/projects/*/*.jsonl", "/.codex/sessions/*/*/*/rollout-*.jsonl"} {
		files, _ := filepath.Glob(g.home + pattern)
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(data)) {
				// Each has lines of other types, from which it does not read its session.
				if strings.Contains(line, text) && (strings.Contains(line, `"type":"user"`) || strings.Contains(line, `"type":"assistant"`) || strings.Contains(line, `"type":"response_item"`)) {
					return true
				}
			}
		}
	}
	return false
}
