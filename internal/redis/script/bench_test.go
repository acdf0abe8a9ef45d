package script_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/script"
	"turnstile/test/redistest"
)

// mute replies to every command itself: only the cost of a call in this process is left.
type mute struct{ reply any }

func (m mute) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m mute) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		cmd.(redistest.Reply).SetVal(m.reply)
		return nil
	}
}

func (m mute) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			cmd.(redistest.Reply).SetVal(m.reply)
		}
		return nil
	}
}

func muted(b *testing.B, reply any) redis.UniversalClient {
	client := redis.NewClient(&redis.Options{})
	b.Cleanup(func() { _ = client.Close() })
	client.AddHook(mute{reply})
	return client
}

// A call that does not wait, like a finish: 13 keys and as many arguments.
func BenchmarkDo(b *testing.B) {
	c := script.NewBatcher(muted(b, []any{[]any{"released"}}), 3)
	s := newScript(b.Name(), "return 1")
	shared := []any{"a", "b", "c"}
	b.ReportAllocs()
	for b.Loop() {
		call := &script.Call{Script: s, Shared: shared,
			Keys: []string{"k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9", "k10", "k11", "k12", "k13"},
			Args: []any{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13"}}
		c.Do(b.Context(), call)
		if call.Err != nil {
			b.Fatal(call.Err)
		}
	}
}

// Thirty-two calls of a script in one command.
func BenchmarkDoAll(b *testing.B) {
	replies := make([]any, 32)
	for i := range replies {
		replies[i] = []any{"turn"}
	}
	c := script.NewBatcher(muted(b, replies), 3)
	s := newScript(b.Name(), "return 1")
	shared := []any{"a", "b", "c"}
	b.ReportAllocs()
	for b.Loop() {
		calls := make([]*script.Call, 32)
		for i := range calls {
			calls[i] = &script.Call{Script: s, Shared: shared,
				Keys: []string{"k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9", "k10"}, Args: []any{"1", "2", "3"}}
		}
		c.DoAll(b.Context(), calls)
		if calls[31].Err != nil {
			b.Fatal(calls[31].Err)
		}
	}
}

// A call for one session, like an emit: 6 keys and 7 arguments.
func BenchmarkRun(b *testing.B) {
	rdb := muted(b, []any{"ok"})
	c := script.NewBatcher(rdb, 3)
	s := newScript(b.Name(), "return 1")
	keys := []string{"k1", "k2", "k3", "k4", "k5", "k6"}
	args := []any{"1", "2", "3", "4", "5", "6", "7"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Run(b.Context(), s, keys, args...); err != nil {
			b.Fatal(err)
		}
	}
}
