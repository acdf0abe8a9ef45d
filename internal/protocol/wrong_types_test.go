package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A key of a wrong type fails a script before its first write. Without TURNSTILE_PROOF each
// situation runs with a third of the keys.
func TestWrongTypes(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	for n, s := range situations() {
		t.Run(strings.TrimSuffix(s.script+"/"+s.name, "/"), func(t *testing.T) {
			t.Parallel()
			keys := append(protocol.KeysOf(actors.Key, "SID"), "task now", "task next", "task new", "task later", "task bad", "idem")
			for i := range keys {
				if !expect.Sampled(n+i, 3) {
					continue
				}
				t.Run(keys[i], func(t *testing.T) {
					b := actors.NewBench(t)
					move := s.prepare(b)
					name := protocol.KeysOf(actors.Key, b.Info().TranscriptID)
					if i < len(name) {
						spoil(b, name[i])
					} else if keys[i] == "idem" {
						spoil(b, b.Keys.Idem("new"))
					} else if id, _ := strings.CutPrefix(keys[i], "task "); b.State(id) != "" {
						spoil(b, b.Keys.Task(b.Task(id)))
					} else {
						return // no such message here
					}
					before := ownKeys(b)
					if err := move(); err != nil {
						actors.Same(t, fmt.Sprintf("a failed %s (%v)", s.script, err), before, ownKeys(b))
					}
				})
			}
		})
	}
}

// ownKeys is the database without the lists of sessions, where a command enters its session before
// it writes.
func ownKeys(b *actors.Bench) (lines string) {
	for line := range strings.Lines(b.Dump()) {
		if !strings.HasPrefix(line, rediskey.Sessions+" ") && !strings.HasPrefix(line, rediskey.Names+" ") {
			lines += line
		}
	}
	return lines
}

// spoil gives a key another type.
func spoil(b *actors.Bench, name string) {
	b.Helper()
	list := b.Redis.Type(b.Ctx, name).Val() == "string" || strings.Contains(name, "sentinel") || strings.Contains(name, "processed") || strings.Contains(name, "failed") || strings.Contains(name, ":idem:")
	expect.OK(b, b.Redis.Del(b.Ctx, name).Err())
	if list {
		expect.OK(b, b.Redis.RPush(b.Ctx, name, "spoilt").Err())
	} else {
		expect.OK(b, b.Redis.Set(b.Ctx, name, "spoilt", 0).Err())
	}
}
