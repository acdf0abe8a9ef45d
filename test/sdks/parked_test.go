package sdks

import (
	"context"
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
	p.gateway()
	w, err := worker.New(p.redis.Client(), actors.Pays(), worker.Config{Concurrency: 20, ParkAfter: time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	expect.OK(t, err)
	expect.OK(t, w.Start(context.Background()))
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	const keyed = "openai-responses-keyed"
	names := append([]string{keyed}, whole...)
	clients := p.node("clients.mjs", "pay", names...)
	expect.Soon(t, "the clients without a key fail", func() bool { return len(p.lines(clients)) == len(whole) })
	client := turnstile.NewClient(p.redis.Client())
	_, err = client.Session(keyed).Decide(t.Context(), "1", session.Allow)
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
