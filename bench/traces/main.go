// Command traces measures what traces cost: a worker drains the same queues without a tracer, and with one that sends
// the spans of each turn (wait, turn, one tool) to a receiver in this process, in alternate rounds.
//
// Worker and receiver share this process, so its processor time with traces has the receiver's, which only reads and
// discards. Spans that do not fit into the queue are dropped: the figures are those of a worker at its highest rate.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"turnstile/bench/internal/lab"
	"turnstile/internal/program/trace"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

var (
	messages = flag.Int("messages", 20_000, "messages of each round")
	rounds   = flag.Int("rounds", 5, "rounds of each side")
)

func main() { lab.Main("traces", run) }

func run(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	var received atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		received.Add(n)
	}))
	defer receiver.Close()
	if err := os.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL); err != nil {
		return err
	}
	sides := []*side{{name: "off"}, {name: "on", traced: true}}
	for range lab.Quick(*rounds, 2) {
		for _, s := range sides {
			if err := s.round(ctx, srv); err != nil {
				return err
			}
			lab.Progress("%s: %.0f turns/s", s.name, s.rates[len(s.rates)-1])
		}
	}
	for _, s := range sides {
		report.Add("traces "+s.name, "%.0f turns/s, %.1f us of processor time and %.0f allocations a turn", lab.Median(s.rates), lab.Median(s.busy), lab.Median(s.allocated))
	}
	report.Add("traces on, received", "%.0f bytes a turn", float64(received.Load())/float64(lab.Quick(*rounds, 2)*lab.Quick(*messages, 2000)))
	return nil
}

// side is a worker without traces, or with them.
type side struct {
	name                   string
	traced                 bool
	rates, busy, allocated []float64
}

func (s *side) round(ctx context.Context, srv *lab.Server) error {
	if err := srv.Clear(ctx); err != nil {
		return err
	}
	rdb := srv.Client()
	defer rdb.Close()
	load := lab.Load{Sessions: lab.Quick(*messages, 2000) / 10, Each: 10}
	if err := load.Fill(ctx, rdb, "s", "hello"); err != nil {
		return err
	}
	quiet, opts := slog.New(slog.DiscardHandler), lab.Production(50)
	if s.traced {
		t, err := trace.Start(ctx, trace.FromEnvironment(), "bench", "", quiet)
		if err != nil {
			return err
		}
		defer t.Stop(ctx, quiet)
		opts.Tracer = t
	}
	left := lab.NewCountdown(load.Messages())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	busy, err := lab.ProcessorTime()
	if err != nil {
		return err
	}
	began := time.Now()
	w, err := lab.Work(ctx, rdb, tools{left}, opts)
	if err != nil {
		return err
	}
	defer lab.Stop(ctx, w)
	if err := left.Wait(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	used, err := lab.ProcessorTime()
	if err != nil {
		return err
	}
	runtime.ReadMemStats(&after)
	n := float64(load.Messages())
	s.rates = append(s.rates, n/took.Seconds())
	s.busy = append(s.busy, float64((used-busy).Microseconds())/n)
	s.allocated = append(s.allocated, float64(after.Mallocs-before.Mallocs)/n)
	return nil
}

// tools is an agent that uses one tool, reports its tokens and replies.
type tools struct{ left *lab.Countdown }

func (tools) Traits() agent.Traits { return agent.Traits{Immediate: true} }

func (a tools) Run(_ context.Context, turn *agent.Turn) (agent.Result, error) {
	turn.Emit(agent.Event{Type: session.EventToolStart, Name: "count", CallID: "1", Input: json.RawMessage(`{"n":1}`)})
	turn.Emit(agent.Event{Type: session.EventToolEnd, CallID: "1", Output: json.RawMessage(`1`)})
	turn.Emit(agent.Event{Type: session.EventUsage, Usage: &session.Usage{Model: "m", InputTokens: 10, OutputTokens: 2}})
	a.left.One()
	return agent.Result{Text: "done"}, nil
}
