package model

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"turnstile"

	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
	"turnstile/test/redistest"
)

const patience = expect.Patience

// work starts a worker with the agent, and returns a sender.
func work(r *rig, a agent.Agent) *actors.Client {
	r.Helper()
	rdb, err := redisconn.Open(redistest.URL(r.T))
	if err != nil {
		r.Fatal(err)
	}
	w, err := worker.New(rdb, a, worker.Config{
		Name: r.Name(), RetryBackoff: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	if err := w.Start(ctx); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		_ = w.Stop(expect.Ended())
		_ = rdb.Close()
	})
	return actors.NewClient(redistest.New(r.T))
}

// The rounds of a turn stay apart in the turns after it: some servers take one call at a time.
func TestRoundsStayApart(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Tools: []Tool{shell("date", "echo today")}}, call("c1", "date", "{}"),
		modelserver.Stream(modelserver.Call("c2", "date", "{}"), modelserver.Call("c3", "date", "{}")), text("so"), text("ok"))
	c := work(r, r.agent)
	ends(r, c, say(r, c, turnstile.Message{Text: "go"}), session.StatusDone)
	ends(r, c, say(r, c, turnstile.Message{Text: "next"}), session.StatusDone)
	rounds := "user: go\nassistant:  c1=date({})\ntool: today =c1\nassistant:  c2=date({}) c3=date({})\ntool: today =c2\ntool: today =c3"
	r.wasAsked(3, rounds)
	r.wasAsked(4, rounds+"\nassistant: so\nuser: next")
}

func say(r *rig, c *actors.Client, m turnstile.Message) string {
	r.Helper()
	receipt, err := c.Session(r.Name()).Send(r.Context(), m)
	if err != nil {
		r.Fatal(err)
	}
	return receipt.ID
}

func ends(r *rig, c *actors.Client, id string, status session.Status) session.Outcome {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	o, err := c.Session(r.Name()).Wait(ctx, id)
	if err != nil || o.Status != status {
		r.Fatalf("%+v, %v; want %s", o, err, status)
	}
	return o
}

// transcript is the session's entries, one a line.
func transcript(r *rig, c *actors.Client) (text string, entries []session.Entry) {
	r.Helper()
	info, err := c.Session(r.Name()).Info(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	entries, err = actors.Transcript(r.Context(), c.Session(r.Name()), info.TranscriptID)
	if err != nil {
		r.Fatal(err)
	}
	for _, e := range entries {
		text += "\n" + string(e.Role) + ": " + e.Text
		if u := e.Tool; u != nil {
			text += fmt.Sprintf("%s %s %s %s%s", u.CallID, u.Name, u.Input, u.Output, u.Error)
		}
	}
	return strings.TrimPrefix(text, "\n"), entries
}

// A message, a tool call and the reply pass through a worker and Redis. The next turn's request has
// them as history.
func TestThroughAWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Key: key, Tools: []Tool{shell("add", `cat >/dev/null; echo '{"sum":3}'`)}},
		modelserver.RateLimited("2"),
		modelserver.Stream(modelserver.Text("let me add"), modelserver.Call("c1", "add", `{"a":1,`, `"b":2}`), modelserver.Use(10, 5)),
		modelserver.Stream(modelserver.Text("It ", "is 3."), modelserver.UseCached(20, 10, 5)),
		text("Again 3."))
	c := work(r, r.agent)
	if o := ends(r, c, say(r, c, turnstile.Message{Text: "1+2?"}), session.StatusDone); o.Reply != "It is 3." {
		t.Errorf("reply %q", o.Reply)
	}
	got, entries := transcript(r, c)
	if want := `user: 1+2?
assistant: let me add
tool: c1 add {"a":1,"b":2} {"sum":3}
assistant: It is 3.`; got != want {
		t.Errorf("transcript:\n%s", got)
	}
	if u := entries[len(entries)-1].Usage; u == nil || u.InputTokens != 30 || u.CachedTokens != 10 || u.OutputTokens != 10 || u.ContextTokens != 25 || u.Model != "m" {
		t.Errorf("usage %+v", u)
	}
	if o := ends(r, c, say(r, c, turnstile.Message{Text: "sure?"}), session.StatusDone); o.Reply != "Again 3." {
		t.Errorf("reply %q", o.Reply)
	}
	r.wasAsked(4, `
user: 1+2?
assistant: let me add c1=add({"a":1,"b":2})
tool: {"sum":3} =c1
assistant: It is 3.
user: sure?`)
}

// early passes a turn's steers through a buffer, so that a test knows when one is there for the
// agent.
type early struct {
	*Agent
	there chan struct{} // closed when the first is
}

func (e early) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	steers, from := make(chan agent.Steer, 1), turn.Steers()
	turn.Host.Steers = steers
	over := make(chan struct{})
	var passing sync.WaitGroup
	passing.Go(func() {
		select {
		case s := <-from:
			steers <- s
			close(e.there)
		case <-over:
		}
	})
	defer passing.Wait()
	defer close(over)
	return e.Agent.Run(ctx, turn)
}

// A steer that comes while the model replies joins the turn.
func TestSteerThroughAWorker(t *testing.T) {
	t.Parallel()
	speaks, there := make(chan struct{}), make(chan struct{})
	r := newRig(t, Config{}, modelserver.Stream(modelserver.Text("first"), modelserver.Do(func() { close(speaks) }), modelserver.Wait(there)), text("second"))
	c := work(r, early{r.agent, there})
	m1 := say(r, c, turnstile.Message{Text: "go"})
	<-speaks
	m2 := say(r, c, turnstile.Message{Text: "and this", Mode: session.ModeSteer})
	first, second := ends(r, c, m1, session.StatusDone), ends(r, c, m2, session.StatusDone)
	if first.Reply != "second" || second.Turn != first.Turn {
		t.Errorf("%+v, %+v", first, second)
	}
	if got, _ := transcript(r, c); got != "user: go\nassistant: first\nuser: and this\nassistant: second" {
		t.Errorf("%s", got)
	}
}

// If a server is down before any output, the worker retries the turn. A refusal is final, and the
// user learns the reason.
func TestFailuresThroughAWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{MaxRetries: -1}, modelserver.Error(503, "", "down"), text("up again"), modelserver.ContextTooLong(), modelserver.ContextTooLong())
	c := work(r, r.agent)
	if o := ends(r, c, say(r, c, turnstile.Message{Text: "go"}), session.StatusDone); o.Reply != "up again" {
		t.Errorf("%+v", o)
	}
	r.requests(2)
	if o := ends(r, c, say(r, c, turnstile.Message{Text: "and"}), session.StatusFailed); !strings.Contains(o.Error, "/new begins a new one") {
		t.Errorf("%+v", o)
	}
	r.requests(4) // the last one without the history
}
