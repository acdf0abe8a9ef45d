package protocol_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A mark from outside in mid-turn ends with the turn, also on the fast path, which does not look
// for it.
func TestMarkInMidTurnGoesWithIt(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(b *actors.Bench) (bool, error){
		"marked":    func(b *actors.Bench) (bool, error) { return resume.Mark(b.Ctx, b.Redis, actors.Key, "") },
		"suspended": func(b *actors.Bench) (bool, error) { return resume.Suspend(b.Ctx, b.Redis, actors.Key) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.SayAll("a", "b")
			h := b.Start()
			id := h.Turn().TranscriptID
			_, err := write(b)
			expect.OK(t, err)
			expect.Equal(t, "more", b.Finish(h), true)
			expect.Equal(t, "record", resumeRecord(b), resume.Record{})
			expect.Equal(t, "more", b.Finish(h), false)
			b.Say("c")
			turn := b.Claim().Turn()
			expect.Equal(t, "session id", turn.TranscriptID, id)
			expect.Equal(t, "reset", turn.Reset, "")
			expect.Equal(t, "mark", turn.Resume, "")
		})
	}
}

// A mark before the first turn is for that turn, also if the run record was lost.
func TestMarkBeforeTheFirstTurn(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]bool{"first": false, "run was lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			if lose {
				b.Say("before")
				b.Drain()
			}
			_, err := resume.Mark(b.Ctx, b.Redis, actors.Key, "")
			expect.OK(t, err)
			b.Say("a")
			if !lose {
				_, err := resume.Mark(b.Ctx, b.Redis, actors.Key, "")
				expect.OK(t, err)
			} else {
				b.Redis.Del(b.Ctx, b.Keys.Run())
			}
			h := b.Start()
			expect.Equal(t, "mark", h.Turn().Resume, resume.ReasonRestart)
			b.Finish(h)
			expect.Equal(t, "record", resumeRecord(b), resume.Record{})
		})
	}
}

// A turn that was renewed ends on the full path, and the next one on the fast path.
func TestFastPathAfterARenewal(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b", "c")
	seen := &fastCalls{}
	h := b.Start()
	expect.OK(t, b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err)
	b.Redis.AddHook(seen)
	b.Finish(h)
	expect.Equal(t, "leases", b.Redis.ZCard(b.Ctx, b.Keys.Lease()).Val(), 0)
	expect.Equal(t, "fast ends that were tried", seen.plain+seen.special, 0)
	expect.OK(t, h.Promote(b.Ctx))
	b.Finish(h)
	expect.Equal(t, "fast ends", seen.plain, 1)
}

// fromOutside are writes to a session after a script: those of pkg/resume, or none.
var fromOutside = map[string]func(b *actors.Bench) error{
	"":          func(*actors.Bench) error { return nil },
	"marked":    func(b *actors.Bench) error { _, err := resume.Mark(b.Ctx, b.Redis, actors.Key, ""); return err },
	"suspended": func(b *actors.Bench) error { _, err := resume.Suspend(b.Ctx, b.Redis, actors.Key); return err },
	"cleared":   func(b *actors.Bench) error { _, err := resume.Clear(b.Ctx, b.Redis, actors.Key); return err },
}

// The field special of a session's run record covers a resume record, a journal and asynq's lease:
// the fast path of finish looks at nothing else. A lease belongs to a message of a running turn.
// Without TURNSTILE_PROOF each situation runs in one of the four ways.
func TestSpecialNamesWhatThereIs(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	for n, s := range slices.Concat(situations(), vanished(), aside()) {
		t.Run(strings.TrimSuffix(s.script+"/"+s.name, "/"), func(t *testing.T) {
			t.Parallel()
			for way := range 4 {
				twice, renewed := way%2 == 1, way >= 2
				if !expect.Sampled(n+way, 4) {
					continue
				}
				for what, write := range fromOutside {
					t.Run(aspects(twice, renewed, what), func(t *testing.T) {
						b := actors.NewBench(t)
						move := s.prepare(b)
						if renewed {
							renewAsOwner(b)
						}
						if twice {
							faults := &redistest.Faults{}
							b.Redis.AddHook(faults)
							faults.RunTwice(actors.Script(s.script), -1)
						}
						expect.OK(t, move())
						expect.OK(t, write(b))
						special(b)
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

// renewAsOwner renews the running turn, if there is one, as its worker does.
func renewAsOwner(b *actors.Bench) {
	b.Helper()
	r := b.Redis.HMGet(b.Ctx, b.Keys.Run(), "token", "fence").Val()
	if r[0] == nil || r[0] == "" || b.Redis.Get(b.Ctx, b.Keys.Sentinel()).Val() != r[0] {
		return
	}
	expect.OK(b, protocol.Do(b.Ctx, b.Redis, "renew", protocol.KeysOf(actors.Key, b.Info().TranscriptID), nil, "token", r[0], "fence", r[1], "ttl", 60_000).Err())
}

// special fails the test if the session is not ordinary and its field special does not say so.
func special(b *actors.Bench) {
	b.Helper()
	var left []string
	for _, k := range []string{b.Keys.Resume(), b.Keys.Journal(), b.Keys.Lease()} {
		if b.Redis.Exists(b.Ctx, k).Val() == 1 {
			left = append(left, k)
		}
	}
	active := b.Redis.LRange(b.Ctx, b.Keys.Active(), 0, -1).Val()
	for _, id := range b.Redis.ZRange(b.Ctx, b.Keys.Lease(), 0, -1).Val() {
		if !slices.Contains(active, id) {
			b.Errorf("%s has a lease and is in no turn:\n%s", id, b.Dump())
		}
	}
	if len(left) == 0 || b.Redis.HGet(b.Ctx, b.Keys.Run(), "special").Val() == "1" {
		return
	}
	b.Errorf("%q and special is not set:\n%s", left, b.Dump())
	if answer := claimPlainly(b); answer != "special" && answer != "" {
		b.Errorf("the fast path claims a turn (%s) and passes by %q", answer, left)
	}
}

// claimPlainly returns the first word of the fast path's result, "" if there is an owner.
func claimPlainly(b *actors.Bench) string {
	b.Helper()
	if b.Redis.Exists(b.Ctx, b.Keys.Sentinel()).Val() == 1 {
		return ""
	}
	cmd := protocol.ClaimFast(b.Ctx, b.Redis, actors.Key)
	expect.OK(b, cmd.Err())
	return first(cmd)
}

func first(cmd redistest.Reply) string {
	if list, ok := alone(cmd).([]any); ok && len(list) > 0 {
		s, _ := list[0].(string)
		return s
	}
	return ""
}

// aside are sessions with messages that a /stop has left to archive.
func aside() []situation {
	return []situation{
		{"stop", "what another has left", func(b *actors.Bench) func() error {
			b.SayAll("now", "next", "later")
			b.Start()
			expect.OK(b, stopInPart(b))
			return func() error {
				_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
				return err
			}
		}},
		{"claim", "tidies: what a stop has left", func(b *actors.Bench) func() error {
			b.SayAll("now", "next")
			expect.OK(b, stopInPart(b))
			b.Say("later")
			return claimMove(b)
		}},
	}
}

// vanished are turns in which an operator deletes the message.
func vanished() []situation {
	turn := func(then func(b *actors.Bench, h *protocol.Claim) func() error, keys ...string) func(b *actors.Bench) func() error {
		return func(b *actors.Bench) func() error {
			b.Say("now")
			h := b.Start()
			renewAsOwner(b)
			b.Redis.Del(b.Ctx, append(keys, b.Keys.Task(b.Task("now")))...)
			return then(b, h)
		}
	}
	active := rediskey.For(actors.Key).Active()
	die := func(b *actors.Bench, _ *protocol.Claim) func() error { b.Die(); return claimMove(b) }
	done := func(b *actors.Bench, h *protocol.Claim) func() error {
		return finishMove(b, h, session.StatusDone, false)
	}
	back := func(b *actors.Bench, h *protocol.Claim) func() error {
		return func() error { return h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}) }
	}
	return []situation{
		{"claim", "crashed without its task", turn(die)},
		{"claim", "tidies: crashed without anything", turn(die, active)},
		{"finish", "without its task", turn(done)},
		{"finish", "without anything", turn(done, active)},
		{"park", "cut short", turn(back)},
		{"park", "cut short without anything", turn(back, active)},
	}
}

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
