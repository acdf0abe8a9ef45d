package examples

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"turnstile"

	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// An invoice is sent once and paid while no worker lives: the one that sent it is killed, after its turn was
// parked.
func TestInvoiceAgent(t *testing.T) {
	t.Parallel()
	needPython(t)
	type invoice struct{ Key, Secret, Cents string }
	sent := make(chan invoice, 10)
	shop := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var i invoice
		if err := json.NewDecoder(r.Body).Decode(&i); err != nil {
			t.Error(err)
		}
		sent <- i
	}))
	defer shop.Close()
	start := func() *program.Process {
		return program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/worker"), []string{
			"REDIS_URL=" + redistest.URL(t), "SHOP_URL=" + shop.URL, "TURNSTILE_SENTINEL_TTL=" + expect.Lease(time.Second).String(),
			"TURNSTILE_PARK_AFTER=10ms", "TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_FORMAT=jsonl", "TURNSTILE_AGENT_ENV=SHOP_URL",
			"TURNSTILE_HTTP_ADDR=", "TURNSTILE_AGENT_COMMAND=python3 " + example(t, "invoice-agent", "agent.py"),
		}))
	}
	chat := actors.NewClient(redistest.New(t)).Session("invoice")
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()

	worker := start()
	events := chat.Events(ctx)
	_, err := chat.Send(ctx, turnstile.Message{ID: "42", Text: "1250"})
	expect.OK(t, err)
	for e, err := range events {
		expect.OK(t, err)
		if e.Type == session.EventTurnRequeued {
			expect.Equal(t, "waits for", e.Name, "invoice:42")
			break
		}
	}
	worker.Kill()
	got := expect.Received(t, "the invoice", sent)
	expect.Equal(t, "key", got.Key, "invoice:42")
	expect.OK(t, chat.Give(ctx, turnstile.Value{Key: got.Key, Secret: got.Secret, JSON: []byte(`{"paid": true}`)}))
	start()
	end, err := chat.Wait(ctx, "42")
	expect.OK(t, err)
	expect.Equal(t, "reply", end.Reply, "Paid, thank you.")
	expect.Equal(t, "more invoices", len(sent), 0)
}
