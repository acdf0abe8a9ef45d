package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/test/expect"
)

// A key of a wrong type fails a script before its first write. Without
// TURNSTILE_PROOF each situation runs with a third of the keys.
func TestWrongTypes(t *testing.T) {
	t.Parallel()
	for n, s := range situations() {
		t.Run(strings.TrimSuffix(s.script+"/"+s.name, "/"), func(t *testing.T) {
			t.Parallel()
			keys := append(sq.KeysOf(key, "SID"), "task now", "task next", "task new", "task later", "task bad")
			for i := range keys {
				if (n+i)%3 != 0 && !expect.Proof() {
					continue
				}
				t.Run(keys[i], func(t *testing.T) {
					b := newBench(t)
					move := s.prepare(b)
					name := sq.KeysOf(key, b.info().SessionID)
					if i < len(name) {
						spoil(b, name[i])
					} else if id, _ := strings.CutPrefix(keys[i], "task "); b.state(id) != "" {
						spoil(b, b.k.Task(b.task(id)))
					} else {
						return // no such message here
					}
					before := b.ownKeys()
					if err := move(); err != nil {
						same(t, fmt.Sprintf("a failed %s (%v)", s.script, err), before, b.ownKeys())
					}
				})
			}
		})
	}
}

// ownKeys is the database without the list of sessions, in which a command enters its
// session before it writes.
func (b *bench) ownKeys() (lines string) {
	for line := range strings.Lines(b.dump()) {
		if !strings.HasPrefix(line, rediskey.Sessions+" ") {
			lines += line
		}
	}
	return lines
}

// spoil gives a key another type than its own.
func spoil(b *bench, name string) {
	b.Helper()
	list := b.rdb.Type(b.ctx, name).Val() == "string" || strings.Contains(name, "sentinel") || strings.Contains(name, "processed") || strings.Contains(name, "failed")
	expect.OK(b, b.rdb.Del(b.ctx, name).Err())
	if list {
		expect.OK(b, b.rdb.RPush(b.ctx, name, "spoilt").Err())
	} else {
		expect.OK(b, b.rdb.Set(b.ctx, name, "spoilt", 0).Err())
	}
}
