package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile/bench/internal/lab"
	"turnstile/bench/peers/internal/history"
)

func TestMain(m *testing.M) {
	if !lab.RunJob("peers", func(j job, ctx context.Context) error { return child(ctx, j) }) { // the clients and servers of the tests are children of this binary
		os.Exit(m.Run())
	}
}

// Every peer in Go handles each message of each shape once, and those that promise it in order and one at a
// time.
func TestPeersInGo(t *testing.T) {
	t.Parallel()
	for _, p := range peers {
		if p.command != nil {
			continue
		}
		for _, durable := range []bool{false, true} {
			for _, shape := range []lab.Load{{Sessions: 20, Each: 10}, {Sessions: 100, Each: 1}} {
				t.Run(p.name+", "+setting{durable, shape}.String(), func(t *testing.T) {
					t.Parallel()
					f, err := measure(t.Context(), p, shape, durable, time.Minute)
					if err != nil {
						t.Fatal(err)
					}
					want := history.Verdict{}
					if p.name == asynqRaw { // how often it breaks both is chance
						want.OutOfOrder, want.Overlaps = f.verdict.OutOfOrder, f.verdict.Overlaps
					}
					if p.name == asynqLocked {
						want.OutOfOrder = f.verdict.OutOfOrder
					}
					if f.verdict != want {
						t.Errorf("%s", f.verdict)
					}
					if f.rate <= 0 || f.handled < f.rate || f.client <= 0 || f.server < 0 {
						t.Errorf("figures that cannot be: %+v", f)
					}
				})
			}
		}
	}
}

// reversing is a client that passes on the messages of all sessions backwards, the first one twice and
// the last one at the end. The check of every run must find that.
type reversing struct{ sent chan []byte }

func (c reversing) send(_ context.Context, _ int, text []byte) error {
	c.sent <- text
	return nil
}

func (c reversing) work(_ context.Context, handle func([]byte) error) (func(), error) {
	close(c.sent)
	var all [][]byte
	for text := range c.sent {
		all = append(all, text)
	}
	slices.Reverse(all)
	for _, text := range append(all[:1:1], all...) {
		if err := handle(text); err != nil {
			return nil, err
		}
	}
	return func() {}, nil
}

func (c reversing) close() {}

func TestARunWithAWrongOrderIsFound(t *testing.T) {
	t.Parallel()
	shape := lab.Load{Sessions: 3, Each: 4}
	r := newRecorder(shape)
	if _, _, err := drive(t.Context(), reversing{make(chan []byte, shape.Messages())}, shape, r); err != nil {
		t.Fatal(err)
	}
	got := history.Check(shape.Sessions, shape.Each, r.history())
	if want := (history.Verdict{OutOfOrder: 9, Twice: 1}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAPeerThatCannotRunSaysWhy(t *testing.T) {
	t.Parallel()
	p := peer{name: "none", command: node("no-such-file.mjs")}
	if hasNode(t.Context()) != nil {
		t.Skip("no Node.js here")
	}
	_, err := measure(t.Context(), p, lab.Load{Sessions: 1, Each: 1}, false, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "no-such-file.mjs") && !strings.Contains(err.Error(), "MODULE_NOT_FOUND") {
		t.Errorf("%v", err)
	}
}
