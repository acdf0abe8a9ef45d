package reference_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/lua"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/script"
	"turnstile/test/redistest"
)

// clockKey holds the time of a life, in ms. Redis's own clock cannot be set, so each script that
// reads it is replaced by one that reads this key.
const clockKey = "reference:clock"

// standIns is a client's hook that replaces scripts: the replacements have a clock that can be set,
// and a mutation if there is one.
type standIns struct {
	hashes map[string]string // by the original's hash
	now    int64
}

// newStandIns loads the scripts. mutate may change a source.
func newStandIns(t testing.TB, rdb redis.UniversalClient, mutate func(source string) string) *standIns {
	t.Helper()
	s := &standIns{hashes: map[string]string{}}
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for _, one := range script.All() {
			source := one.Source
			if mutate != nil {
				source = mutate(source)
			}
			source = standIn(source)
			s.hashes[one.Hash()] = redis.NewScript(source).Hash()
			p.ScriptLoad(t.Context(), source)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// standIn is a script with the clock of a life.
func standIn(source string) string {
	return strings.Replace(source, "local time = redis.call('TIME')",
		"local time = redis.call('GET', '"+clockKey+"')\n  time = {math.floor(time / 1000), time % 1000 * 1000}", 1)
}

// DialHook implements redis.Hook and does nothing.
func (s *standIns) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook replaces a command.
func (s *standIns) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.replace(cmd)
		err := next(ctx, cmd)
		s.tellTime(cmd)
		return err
	}
}

// ProcessPipelineHook replaces the commands of a pipeline.
func (s *standIns) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			s.replace(cmd)
		}
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			s.tellTime(cmd)
		}
		return err
	}
}

func (s *standIns) replace(cmd redis.Cmder) {
	s.tellSender(cmd)
	if !isScript(cmd) {
		return
	}
	args := cmd.Args()
	hash, _ := args[1].(string)
	one, ours := script.BySHA(hash)
	if !ours {
		return
	}
	args[1] = s.hashes[hash]
	if one.Name == "finish"+lua.FastSuffix {
		s.tellWorker(args)
	}
}

// tellWorker corrects a worker's estimate of Redis's clock: it follows the worker's monotonic
// clock, which advances while that of a life stands still. See lua/finish.lua.
func (s *standIns) tellWorker(args []any) {
	header, err := lua.Compose("finish" + lua.FastSuffix)
	if err != nil {
		panic(err)
	}
	keys, _ := args[2].(int)
	at := slices.IndexFunc(header.Each, func(a lua.Arg) bool { return a.Name == "now" })
	args[3+keys+len(header.Args)+at] = strconv.FormatInt(s.now, 10)
}

// tellSender does so for a sender, which advances the time of its last reply by its own clock when
// it enters a session in the list.
func (s *standIns) tellSender(cmd redis.Cmder) {
	if args := cmd.Args(); len(args) == 4 && cmd.Name() == "zadd" && args[1] == rediskey.Sessions {
		args[2] = s.now
	}
}

func (s *standIns) tellTime(cmd redis.Cmder) {
	if c, ok := cmd.(*redis.TimeCmd); ok && c.Err() == nil {
		c.SetVal(time.UnixMilli(s.now))
	}
}

func isScript(cmd redis.Cmder) bool { return redistest.Named("evalsha")(cmd) && len(cmd.Args()) > 2 }

// lossy matches the calls of Turnstile's scripts that change something. Losing the reply of another
// script has no effect.
func lossy(cmd redis.Cmder) bool { return ours(cmd) && !named("look")(cmd) }

// ours matches the calls of Turnstile's scripts.
func ours(cmd redis.Cmder) bool {
	if !isScript(cmd) {
		return false
	}
	hash, _ := cmd.Args()[1].(string)
	_, known := script.BySHA(hash)
	return known
}

// named matches the calls of one of them.
func named(name string) redistest.Match {
	return func(cmd redis.Cmder) bool {
		if !ours(cmd) {
			return false
		}
		one, _ := script.BySHA(cmd.Args()[1].(string))
		return strings.TrimSuffix(one.Name, lua.FastSuffix) == name
	}
}
