package worker_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/model"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// toolCalls is how many calls the model makes, one after the other.
const toolCalls = 5

// noted is the note of a turn that was interrupted before it had a step: it begins again.
var noted = regexp.MustCompile(`\[System note:[^\]]*\]\\n\\n`)

// newModelAgent returns an agent whose tool writes a line for each call into a file.
func newModelAgent(url, file string) (agent.Agent, error) {
	return model.New(model.Config{
		URL: url, Model: "m", Key: "k", MaxRetries: -1, Logger: slog.New(slog.DiscardHandler),
		Tools: []model.Tool{{Name: "pay", Argv: []string{"sh", "-c", `read args; echo "$args $TURNSTILE_STEP_KEY" >>"$0"; echo '"paid <&>"'`, file}}},
	})
}

// A worker with the agent model is killed at every step of a turn: before each of its calls to Redis and
// after each, and while the model writes each response. Each tool has its effect once, and each request is
// made once, except the one that was cut; that is repeated, byte for byte but for a note before the first step.
func TestModelTurnSurvivesEveryDeath(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	slots := make(chan struct{}, 4)
	run := func(t *testing.T, j job, cut int) (steps []string, first []string) {
		t.Helper()
		slots <- struct{}{}
		defer func() { <-slots }()
		r := newRig(t)
		server := modelserver.New(t)
		dir := t.TempDir()
		j.Model, j.Steps, j.Log, j.TTL = server.URL(), filepath.Join(dir, "steps"), filepath.Join(dir, "paid"), expect.Lease(time.Second)
		var kill func()
		var once sync.Once
		server.Otherwise(func(q modelserver.Request) modelserver.Response {
			n := strings.Count(string(q.Body), `"role":"assistant"`)
			say := modelserver.Text(fmt.Sprintf("I pay %d.", n))
			cuts := modelserver.Do(func() {
				if n == cut {
					once.Do(func() { kill() })
				}
			})
			if n == toolCalls {
				return modelserver.Stream(modelserver.Text("All "), cuts, modelserver.Text("paid."), modelserver.Use(1, 1))
			}
			return modelserver.Stream(say, cuts, modelserver.Call(fmt.Sprint("c", n), "pay", fmt.Sprintf(`{"n": %d, "to": "<a&b>"}`, n)), modelserver.Use(1, 1))
		})
		r.say("m1", "hello")
		p := &process{}
		started := make(chan struct{})
		kill = func() {
			<-started
			_ = p.cmd.Process.Kill()
			<-p.gone()
		}
		p = r.process("mortal", j)
		close(started)
		expect.Soon(t, "the worker's death, or the turn's end", func() bool {
			_, ended, err := actors.Result(r.ctx, r.client.Session(r.key), "m1")
			return p.dead() || err == nil && ended
		})
		p.kill()
		soon := redis.Z{Score: float64(time.Now().Add(time.Second).UnixMilli()), Member: r.key}
		expect.OK(t, r.rdb.ZAddArgs(r.ctx, rediskey.Owned, redis.ZAddArgs{XX: true, LT: true, Members: []redis.Z{soon}}).Err())
		a, err := newModelAgent(j.Model, j.Log)
		expect.OK(t, err)
		r.worker(a, sentinelTTL(heir.TTL), with(func(c *worker.Config) { c.RecoveryRate = 1000 }))
		o := r.ends("m1", session.StatusDone)
		expect.Equal(t, "reply", o.Reply, "All paid.")

		requests := map[int][]string{}
		for _, q := range server.Requests() {
			n := strings.Count(string(q.Body), `"role":"assistant"`)
			requests[n] = append(requests[n], noted.ReplaceAllString(string(q.Body), ""))
		}
		expect.Equal(t, "different requests", len(requests), toolCalls+1)
		if n := len(server.Requests()); n > toolCalls+2 {
			t.Errorf("%d requests", n)
		}
		for n := range toolCalls + 1 {
			first = append(first, requests[n][0])
			if len(slices.Compact(requests[n])) > 1 {
				t.Errorf("request %d was made as\n%s", n, strings.Join(requests[n], "\n"))
			}
		}
		info := r.info()
		entries, err := actors.Transcript(r.ctx, r.client.Session(r.key), info.TranscriptID)
		expect.OK(t, err)
		text, err := os.ReadFile(j.Log)
		expect.OK(t, err)
		keys := map[string]bool{}
		tools := 0
		for _, e := range entries {
			if e.Tool == nil {
				continue
			}
			lines := strings.Count(string(text), fmt.Sprintf(`{"n": %d,`, tools))
			tools++
			if unknown := e.Tool.Error != ""; lines > 1 || lines == 0 && !unknown {
				t.Errorf("%d effects of %+v", lines, e.Tool)
			}
		}
		expect.Equal(t, "tools", tools, toolCalls)
		for line := range strings.Lines(string(text)) {
			keys[line] = true
		}
		expect.Equal(t, "keys", len(keys), strings.Count(string(text), "\n"))
		data, err := os.ReadFile(j.Steps)
		expect.OK(t, err)
		return strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' }), first
	}
	steps, want := run(t, job{}, -1)
	if len(steps) < 2*toolCalls {
		t.Fatalf("only these steps were counted: %q", steps)
	}
	for n := range toolCalls + 1 {
		if !expect.Sampled(n, 2) {
			continue
		}
		t.Run(fmt.Sprint("in response ", n), func(t *testing.T) {
			t.Parallel()
			_, got := run(t, job{}, n)
			expect.List(t, "requests", got, want...)
		})
	}
	for i, name := range steps {
		for k, when := range []string{"before", "after"} {
			if !expect.Sampled(2*i+k, 7) {
				continue
			}
			t.Run(fmt.Sprint(when, " step ", i+1), func(t *testing.T) {
				t.Parallel()
				t.Log(name)
				_, got := run(t, job{Step: i + 1, Before: when == "before"}, -1)
				if !strings.Contains(got[toolCalls], "may have had its effects") { // of a call that was not repeated
					expect.List(t, "requests", got, want...)
				}
			})
		}
	}
}
