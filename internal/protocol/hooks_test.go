package protocol_test

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"encoding/hex"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/script"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// hook is a redis.Hook of one function, for single commands and pipelines.
type hook func(cmds []redis.Cmder, send func() error) error

// DialHook changes nothing.
func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook calls h with a single command.
func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h([]redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook calls h with the commands of a pipeline.
func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h(cmds, func() error { return next(ctx, cmds) })
	}
}

// before calls do before each command or pipeline that matches.
func before(match redistest.Match, do func()) redis.Hook {
	return hook(func(cmds []redis.Cmder, send func() error) error {
		if slices.ContainsFunc(cmds, match) {
			do()
		}
		return send()
	})
}

// behind calls do after each command that matches and was carried out. A script that
// Redis did not know yet was not.
func behind(match redistest.Match, do func()) redis.Hook {
	return hook(func(cmds []redis.Cmder, send func() error) error {
		err := send()
		if err == nil && slices.ContainsFunc(cmds, match) {
			do()
		}
		return err
	})
}

// between sends the first command that matches a second time and calls do between the
// two, as if the first reply was lost.
func between(match redistest.Match, do func()) redis.Hook {
	done := false
	return hook(func(cmds []redis.Cmder, send func() error) error {
		err := send()
		if done || err != nil || !slices.ContainsFunc(cmds, match) {
			return err
		}
		done = true
		do()
		return send()
	})
}

// scriptOf is the name of the script that a command calls: a move's, with _fast for its
// fast path, or "".
func scriptOf(cmd redis.Cmder) string {
	args := cmd.Args()
	if len(args) < 2 || !strings.HasPrefix(strings.ToLower(cmd.Name()), "eval") {
		return ""
	}
	hash, _ := args[1].(string)
	if len(hash) != 2*sha1.Size { // the text itself: this server did not know the script
		sum := sha1.Sum([]byte(hash)) //nolint:gosec // as above
		hash = hex.EncodeToString(sum[:])
	}
	text, _ := script.BySHA(hash)
	return text.Name
}

// called matches the calls of a move's script, on the fast path too.
func called(name string) redistest.Match {
	return func(cmd redis.Cmder) bool { return strings.TrimSuffix(scriptOf(cmd), "_fast") == name }
}

// fullPath matches the calls of a move's script that are not on the fast path.
func fullPath(name string) redistest.Match {
	return func(cmd redis.Cmder) bool { return scriptOf(cmd) == name }
}

// fastPath matches the calls of any move's fast path.
func fastPath(cmd redis.Cmder) bool { return strings.HasSuffix(scriptOf(cmd), "_fast") }

// load has Redis know a move's scripts, so that no call is repeated with the text.
func (b *bench) load(name string) {
	b.Helper()
	for _, text := range script.All() {
		if strings.TrimSuffix(text.Name, "_fast") == name {
			expect.OK(b, b.rdb.ScriptLoad(b.ctx, text.Source).Err())
		}
	}
}
