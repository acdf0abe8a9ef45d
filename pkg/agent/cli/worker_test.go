package cli

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"turnstile"

	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// say runs one message's turn with a separate worker, and ends the worker.
func say(t *testing.T, a agent.Agent, key, text string) session.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	redistest.New(t)
	rdb, err := redisconn.Open(redistest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rdb.Close() }()
	w, err := worker.New(rdb, a, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = w.Start(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Stop(expect.Ended()) }()
	client := actors.NewClient(rdb)
	receipt, err := client.Session(key).Send(ctx, turnstile.Message{Text: text})
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := client.Session(key).Wait(ctx, receipt.ID)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// The second worker resumes the session that the first one began. A failed turn in between does not
// change the program's session, and the program receives its recap.
func TestTwoWorkers(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			begun, _, _ := strings.Cut(sayings[kind], "\n")
			command, listen := fakeProgram(t, play{Out: sayings[kind]}, play{Out: begun + "\n", Exit: 1}, play{Out: sayings[kind]})
			for i, want := range []session.Status{session.StatusDone, session.StatusFailed, session.StatusDone} {
				got := say(t, newAgent(t, kind, Config{Command: command}), "web:1", "hello")
				if got.Status != want || want == session.StatusDone && got.Reply != "ok" {
					t.Errorf("turn %d: %+v", i, got)
				}
			}
			h := listen()
			if len(h) != 3 {
				t.Fatalf("%d starts", len(h))
			}
			for i, of := range h {
				if resumed := strings.Contains(strings.Join(of.Args, " "), "s-1"); resumed != (i > 0) || i < 2 && of.Stdin != "hello" {
					t.Errorf("turn %d: %q hears %q", i, of.Args, of.Stdin)
				}
			}
			if last := h[2].Stdin; !strings.Contains(last, "User: hello\n\nAssistant: [This turn failed here: the agent failed]\n\n[End of") || !strings.HasSuffix(last, "\n\nhello") {
				t.Errorf("after the failure it hears %q", last)
			}
		})
	}
}

// The same with the real programs. Their models count their input.
func TestRealWithTwoWorkers(t *testing.T) {
	t.Parallel()
	for _, r := range reals {
		t.Run(string(r.kind), func(t *testing.T) {
			t.Parallel()
			g := r.start(t)
			for _, want := range []string{"Heard 1: first", "Heard 2: first | second"} {
				got := say(t, newAgent(t, r.kind, g.config), "web:1", want[strings.LastIndexByte(want, ' ')+1:])
				if got.Status != session.StatusDone || got.Reply != want {
					t.Errorf("%+v, want %q", got, want)
				}
				if got.Usage == nil || got.Usage.InputTokens < 18 || got.Usage.InputTokens > 36 {
					t.Errorf("usage %+v", got.Usage)
				}
			}
		})
	}
}

// An interrupted real program leaves no process, and its session continues.
func TestRealInterrupt(t *testing.T) {
	t.Parallel()
	for _, r := range reals {
		t.Run(string(r.kind), func(t *testing.T) {
			t.Parallel()
			g := r.start(t)
			a := newAgent(t, r.kind, g.config)
			ctx, cancel := context.WithCancelCause(t.Context())
			enough := errors.New("enough")
			began := time.Now()
			got := playWith(ctx, a, emitting(turn("never end"), func(e agent.Event) {
				if e.Type == session.EventState {
					g.onStuck(func() { cancel(enough) })
				}
			}))
			if !errors.Is(got.err, enough) {
				t.Fatal(got.err)
			}
			t.Logf("interrupted and gone after %s", time.Since(began))
			next := turn("and now?")
			next.State = got.state(t)
			if again := playTurn(t, a, next); again.err != nil || !strings.HasSuffix(again.reply, "and now?") {
				t.Errorf("%q, %v", again.reply, again.err)
			} else {
				t.Logf("then: %q", again.reply)
			}
		})
	}
}
