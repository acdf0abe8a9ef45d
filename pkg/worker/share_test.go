package worker_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"turnstile"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

// Two sessions share one slot in turns.
func TestTurnShare(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const messages, share = 100, 10
	var mu sync.Mutex
	var order []string
	a := immediate{func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, turn.Session)
		return agent.Result{Text: "ok"}, nil
	}}
	one, two := r.key+"-one", r.key+"-two"
	for i := range messages {
		for _, key := range []string{one, two} {
			r.send(key, turnstile.Message{ID: fmt.Sprint(i), Text: "x"})
		}
	}
	r.worker(a, slots(1), with(func(o *worker.Config) { o.ShareTurns(share) }))
	for _, key := range []string{one, two} {
		r.outcomeIn(key, fmt.Sprint(messages-1))
	}
	mu.Lock()
	defer mu.Unlock()
	expect.Equal(t, "turns", len(order), 2*messages)
	longest, run := 0, 0
	for i := range order {
		if i > 0 && order[i] != order[i-1] {
			run = 0
		}
		run++
		longest = max(longest, run)
	}
	// The worker checks only every 20 ms whether others wait, but then at each turn.
	if longest > 3*share {
		t.Errorf("one session ran %d turns while the other waited, its share is %d", longest, share)
	}
	t.Logf("the longest run was %d turns", longest)
}

// A session that has had its share continues if no other waits.
func TestShareIsOnlyForOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 30 {
		r.say(fmt.Sprint(i), "x")
	}
	tokens := make(chan string, 30)
	r.worker(immediate{func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
		tokens <- r.rdb.Get(ctx, r.k.Sentinel()).Val()
		return agent.Result{Text: "ok"}, nil
	}}, with(func(o *worker.Config) { o.ShareTurns(1) }))
	r.ends("29", session.StatusDone)
	close(tokens)
	claims := map[string]bool{}
	for token := range tokens {
		claims[token] = true
	}
	// The first sweep may have woken the session once more: then it waits for itself.
	if len(claims) > 2 {
		t.Errorf("the session was claimed %d times", len(claims))
	}
	var fences []int64
	for _, e := range r.events(r.key) {
		if e.Type == session.EventTurnStarted {
			fences = append(fences, e.Fence)
		}
	}
	expect.Equal(t, "turns", len(fences), 30)
	if !slices.IsSorted(fences) || len(slices.Compact(fences)) != 30 {
		t.Errorf("the fences do not rise: %v", fences)
	}
}
