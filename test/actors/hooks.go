package actors

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"turnstile/test/redistest"
)

// Hook is a redis.Hook of one function, for single commands and pipelines.
type Hook func(cmds []redis.Cmder, send func() error) error

// DialHook changes nothing.
func (h Hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook calls h with a single command.
func (h Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h([]redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook calls h with the commands of a pipeline.
func (h Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h(cmds, func() error { return next(ctx, cmds) })
	}
}

// Before calls do before each command or pipeline that matches.
func Before(match redistest.Match, do func()) redis.Hook {
	return Hook(func(cmds []redis.Cmder, send func() error) error {
		if slices.ContainsFunc(cmds, match) {
			do()
		}
		return send()
	})
}

// BeforeNth calls do once, before the n-th command or pipeline that matches: a rival runs there to
// its end while the first operation waits.
func BeforeNth(n int, match redistest.Match, do func()) redis.Hook {
	var seen atomic.Int64
	return Before(match, func() {
		if seen.Add(1) == int64(n) {
			do()
		}
	})
}

// Behind calls do after each successful command that matches. The first call of a script fails if Redis
// does not know it.
func Behind(match redistest.Match, do func()) redis.Hook {
	return Hook(func(cmds []redis.Cmder, send func() error) error {
		err := send()
		if err == nil && slices.ContainsFunc(cmds, match) {
			do()
		}
		return err
	})
}

// SendTwice sends the first command that matches a second time, and calls do between the two, as if
// the first reply was lost.
func SendTwice(match redistest.Match, do func()) redis.Hook {
	done := false
	return Hook(func(cmds []redis.Cmder, send func() error) error {
		err := send()
		if done || err != nil || !slices.ContainsFunc(cmds, match) {
			return err
		}
		done = true
		do()
		return send()
	})
}
