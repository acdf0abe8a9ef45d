package sdks

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"turnstile"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A turn waits for its user's decision without a worker, longer than a request waits for it. Each client gets an error
// that names the response, and none sends its message again. One with a key repeats its request, and gets the reply.
func TestParkedTurn(t *testing.T) {
	p := newPrograms(t)
	p.pays()
	const keyed = "openai-responses-keyed"
	names := append([]string{keyed}, whole...)
	clients := p.node("clients.mjs", "pay", names...)
	expect.Soon(t, "the clients without a key fail", func() bool { return len(p.lines(clients)) == len(whole) })
	client := turnstile.NewClient(p.redis.Client())
	_, err := client.Session(keyed).Decide(t.Context(), "1", session.Allow)
	expect.OK(t, err)
	results := p.results(clients, names)
	for name, l := range results {
		info, err := client.Session(name).Info(t.Context())
		expect.OK(t, err)
		expect.Equal(t, "messages of "+name+" that wait", info.Waiting, 0)
		if name == keyed {
			continue
		}
		if l.Text != "" || name != "agents-whole" && !strings.Contains(l.Error, "Get the response resp_") {
			t.Errorf("%s: %+v", name, l)
		}
		if info.Question == nil || info.Question.Number != 1 {
			t.Errorf("%s: %+v", name, info)
		}
	}
	if l := results[keyed]; l.Text != "It is paid." || l.Error != "" {
		t.Errorf("%+v", l)
	}
}

// pays starts a gateway, and a worker that parks its turns at once.
func (p *programs) pays() {
	p.Helper()
	p.gateway()
	w, err := worker.New(p.redis.Client(), actors.Pays(), worker.Config{Concurrency: 20, ParkAfter: time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	expect.OK(p, err)
	expect.OK(p, w.Start(context.Background()))
	p.Cleanup(func() { _ = w.Stop(expect.Ended()) })
}

// Programs see the agent's question in a response and decide it.
func TestApprovals(t *testing.T) {
	p := newPrograms(t)
	p.pays()
	names := []string{"in-a-stream", "without-a-stream", "with-a-stream"}
	for name, l := range p.results(p.node("approvals.mjs", "pay"), names) {
		if want := map[string]string{"without-a-stream": "It is not paid."}[name]; l.Error != "" || l.Text != cmp.Or(want, "It is paid.") {
			t.Errorf("%+v", l)
		}
	}
}

// Every client that reads a stream has the reply to its end, if somebody else decides.
func TestQuestionsDecidedElsewhere(t *testing.T) {
	p := newPrograms(t)
	p.pays()
	clients, client := p.node("clients.mjs", "pay", streaming...), turnstile.NewClient(p.redis.Client())
	for _, name := range streaming {
		expect.Soon(t, "the question of "+name, func() bool {
			_, err := client.Session(name).Decide(t.Context(), "1", session.Allow)
			if !errors.Is(err, session.ErrNoQuestion) {
				expect.OK(t, err)
			}
			return err == nil
		})
	}
	for name, l := range p.results(clients, streaming) {
		if l.Error != "" || l.Text != "It is paid." {
			t.Errorf("%s: %+v", name, l)
		}
	}
}
