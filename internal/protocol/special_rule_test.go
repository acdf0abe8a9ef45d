package protocol_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// fromOutside are what somebody else does to a session after a script: pkg/resume's
// writes, or nothing.
var fromOutside = map[string]func(b *bench) error{
	"":          func(*bench) error { return nil },
	"marked":    func(b *bench) error { _, err := resume.Mark(b.ctx, b.rdb, key, ""); return err },
	"suspended": func(b *bench) error { _, err := resume.Suspend(b.ctx, b.rdb, key); return err },
	"cleared":   func(b *bench) error { _, err := resume.Clear(b.ctx, b.rdb, key); return err },
}

// A resume record, a partial or a lease of asynq's that a session has shows in its
// run record's special: a turn's plain end looks at nothing else. A lease belongs to a
// message that is in a turn. Without TURNSTILE_PROOF each situation runs in one of
// the four ways.
func TestSpecialTellsOfWhatThereIs(t *testing.T) {
	t.Parallel()
	for n, s := range slices.Concat(situations(), vanished(), aside()) {
		t.Run(strings.TrimSuffix(s.script+"/"+s.name, "/"), func(t *testing.T) {
			t.Parallel()
			for way := range 4 {
				twice, renewed := way%2 == 1, way >= 2
				if way != n%4 && !expect.Proof() {
					continue
				}
				for what, write := range fromOutside {
					t.Run(aspects(twice, renewed, what), func(t *testing.T) {
						b := newBench(t)
						move := s.prepare(b)
						if renewed {
							b.renewAsOwner()
						}
						if twice {
							faults := &redistest.Faults{}
							b.rdb.AddHook(faults)
							faults.RunTwice(called(s.script), -1)
						}
						expect.OK(t, move())
						expect.OK(t, write(b))
						b.special()
					})
				}
			}
		})
	}
}

func aspects(twice, renewed bool, what string) string {
	name := "once"
	if twice {
		name = "twice"
	}
	if renewed {
		name += " renewed"
	}
	return strings.TrimSpace(name + " " + what)
}

// renewAsOwner renews the turn that runs, if one does, as its worker would.
func (b *bench) renewAsOwner() {
	b.Helper()
	r := b.rdb.HMGet(b.ctx, b.k.Run(), "token", "fence").Val()
	if r[0] == nil || r[0] == "" || b.rdb.Get(b.ctx, b.k.Sentinel()).Val() != r[0] {
		return
	}
	expect.OK(b, sq.Do(b.ctx, b.rdb, "renew", sq.KeysOf(key, b.info().SessionID), nil, "token", r[0], "fence", r[1], "ttl", 60_000).Err())
}

// special fails the test if the session has what its special does not tell of.
func (b *bench) special() {
	b.Helper()
	var left []string
	for _, k := range []string{b.k.Resume(), b.k.Partial(), b.k.Lease()} {
		if b.rdb.Exists(b.ctx, k).Val() == 1 {
			left = append(left, k)
		}
	}
	active := b.rdb.LRange(b.ctx, b.k.Active(), 0, -1).Val()
	for _, id := range b.rdb.ZRange(b.ctx, b.k.Lease(), 0, -1).Val() {
		if !slices.Contains(active, id) {
			b.Errorf("%s has a lease and is in no turn:\n%s", id, b.dump())
		}
	}
	if len(left) == 0 || b.rdb.HGet(b.ctx, b.k.Run(), "special").Val() == "1" {
		return
	}
	b.Errorf("%q and special is not set:\n%s", left, b.dump())
	if answer := b.claimPlainly(); answer != "special" && answer != "" {
		b.Errorf("a plain claim takes a turn (%s) and passes by %q", answer, left)
	}
}

// claimPlainly is the plain claim's first word, "" where there is an owner.
func (b *bench) claimPlainly() string {
	b.Helper()
	if b.rdb.Exists(b.ctx, b.k.Sentinel()).Val() == 1 {
		return ""
	}
	cmd := sq.ClaimFast(b.ctx, b.rdb, key)
	expect.OK(b, cmd.Err())
	return first(cmd)
}

func first(cmd *redis.Cmd) string {
	if list, ok := alone(cmd).([]any); ok && len(list) > 0 {
		s, _ := list[0].(string)
		return s
	}
	return ""
}

// aside are sessions of which a /stop has put messages aside and not archived all.
func aside() []situation {
	return []situation{
		{"stop", "what another has put aside", func(b *bench) func() error {
			b.sayAll("now", "next", "later")
			b.start()
			expect.OK(b, b.stopInPart())
			return func() error {
				_, err := b.client.Stop(b.ctx, key)
				return err
			}
		}},
		{"claim", "what a stop has put aside", func(b *bench) func() error {
			b.sayAll("now", "next")
			expect.OK(b, b.stopInPart())
			b.say("later")
			return claimMove(b)
		}},
	}
}

// vanished are turns whose message an operator deletes while they run.
func vanished() []situation {
	turn := func(then func(b *bench, h *sq.Claim) func() error, keys ...string) func(b *bench) func() error {
		return func(b *bench) func() error {
			b.say("now")
			h := b.start()
			b.renewAsOwner()
			b.rdb.Del(b.ctx, append(keys, b.k.Task(b.task("now")))...)
			return then(b, h)
		}
	}
	active := rediskey.For(key).Active()
	die := func(b *bench, _ *sq.Claim) func() error { b.die(); return claimMove(b) }
	done := func(b *bench, h *sq.Claim) func() error { return finishMove(b, h, session.StatusDone, false) }
	back := func(b *bench, h *sq.Claim) func() error {
		return func() error {
			return h.Requeue(b.ctx, "drain", session.Entry{Role: session.RoleUser, Text: "now"})
		}
	}
	return []situation{
		{"claim", "crashed without its task", turn(die)},
		{"claim", "crashed without anything", turn(die, active)},
		{"finish", "without its task", turn(done)},
		{"finish", "without anything", turn(done, active)},
		{"requeue", "cut short", turn(back)},
		{"requeue", "cut short without anything", turn(back, active)},
	}
}
