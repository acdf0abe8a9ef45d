package protocol_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// The worker checks the messages of other producers: one over a limit is archived, and the next one
// runs.
func TestPlainMessagesOverALimit(t *testing.T) {
	t.Parallel()
	for what, m := range actors.OverLimits() {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			payload, err := m.Payload()
			expect.OK(t, err)
			b.EnqueueTask(wire.TaskType, string(payload), b.Task("large"))
			h := b.Claim()
			if err := h.Turn().Err; !errors.Is(err, session.ErrInvalid) || !strings.Contains(fmt.Sprint(err), what) {
				t.Errorf("%.200v", err)
			}
		})
	}
}

// A message that is far too long does not leave Redis. The claim archives it unread, the archive
// has its length and not its content, and its waiting sender gets the outcome.
func TestTooLongToBeRead(t *testing.T) {
	t.Parallel()
	large := `{"v":1,"text":"x","meta":{"k":"` + strings.Repeat("x", 3<<20) + `"}}`
	b := actors.NewBench(t)
	for i := range 3 {
		b.EnqueueTask(wire.TaskType, large, b.Task(fmt.Sprint("large", i)))
	}
	b.Say("small")
	for b.State("large2") == "pending" {
		if claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key}); err != nil || len(claims) > 0 {
			t.Fatalf("claimed %d: %v", len(claims), err)
		}
		expect.Equal(t, "is to be claimed again", b.Redis.ZScore(b.Ctx, "turnstile:ready", actors.Key).Err(), nil)
	}
	for i := range 3 {
		id := fmt.Sprint("large", i)
		expect.Equal(t, "state", b.State(id), "archived")
		if n := b.Redis.HStrLen(b.Ctx, b.Keys.Task(b.Task(id)), "msg").Val(); n > 1000 {
			t.Errorf("%d bytes are stored", n)
		}
		o := b.Outcome(id)
		expect.Equal(t, "status", o.Status, session.StatusFailed)
		if !strings.Contains(o.Error, "bytes, at most 2359296 are allowed; its content was not kept") {
			t.Errorf("error: %s", o.Error)
		}
		info := inspect(b, id)
		expect.Equal(t, "asynqmon: its error", info.LastErr, o.Error)
		expect.Equal(t, "asynqmon: its queue and type", info.Queue+" "+info.Type, "session:"+actors.Key+" turnstile:message")
	}
	expect.List(t, "runs", b.Drain(), "small")
	expect.Equal(t, "dead letters", len(b.Dead(actors.Key)), 3)
	n, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
	expect.OK(t, err)
	expect.Equal(t, "run again", n, 3)
	if err := b.Claim().Turn().Err; !errors.Is(err, session.ErrInvalid) || !strings.Contains(err.Error(), "was not kept") {
		t.Errorf("%v", err)
	}
}

// It is not steered in and not collected. A stop and a full queue archive it like others.
func TestTooLongElsewhere(t *testing.T) {
	t.Parallel()
	large := `{"v":1,"text":"x","meta":{"k":"` + strings.Repeat("x", 3<<20) + `"}}`
	put := func(b *actors.Bench, id string) { b.EnqueueTask(wire.TaskType, large, b.Task(id)) }
	short := func(b *actors.Bench, id string) {
		b.Helper()
		expect.Equal(b, "state", b.State(id), "archived")
		if n := b.Redis.HStrLen(b.Ctx, b.Keys.Task(b.Task(id)), "msg").Val(); n > 1000 {
			b.Errorf("%d bytes are stored", n)
		}
	}
	t.Run("steer", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		b.Say("a")
		h := b.Start()
		put(b, "s")
		expect.Equal(t, "another Send of it", b.Say("s", session.ModeSteer).Status, receipt.Duplicate)
		steered, err := h.Steer(b.Ctx)
		expect.OK(t, err)
		expect.Equal(t, "steered", len(steered), 0)
		more, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone})
		expect.OK(t, err)
		expect.Equal(t, "the next turn takes it", more, false)
		b.ClaimNothing("it is archived")
		short(b, "s")
	})
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		put(b, "p")
		_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
		expect.OK(t, err)
		short(b, "p")
	})
	t.Run("full", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t, func(c *protocol.Config) { c.Line.Cap, c.Line.Drop = 1, "old" })
		b.Say("a")
		b.Start()
		put(b, "p")
		b.Say("b")
		short(b, "p")
		expect.List(t, "the line", b.Waiting(), "b")
	})
	t.Run("a dead owner's", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		b.Say("a")
		b.Start()
		expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("a")), "msg", strings.Repeat("x", 3<<20)).Err())
		b.Die()
		b.ClaimNothing("it leaves its turn and is archived")
		short(b, "a")
	})
}

// A program may have other limits.
func TestProgramMaySetOtherLimits(t *testing.T) {
	t.Parallel()
	limits := session.Limits{MessageBytes: 29}
	b := actors.NewBench(t, func(c *protocol.Config) { c.Limits = limits })
	b.Client = actors.NewClientWith(b.Redis, turnstile.ClientConfig{Limits: limits})
	for _, m := range []turnstile.Message{
		{Text: "more than ten"}, {Text: "a", Meta: map[string]string{"name": "a value"}},
		{Text: "a", Attachments: []session.Attachment{{Name: strings.Repeat("x", 100), Path: "p"}}},
	} {
		if _, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), m); !errors.Is(err, session.ErrTooLarge) {
			t.Errorf("%.20v: %v", m, err)
		}
	}
	expect.Equal(t, "accepted", b.Say("ten").Status, receipt.Accepted)
	b.EnqueueTask(wire.TaskType, `{"v":1,"text":"more than ten"}`, b.Task("plain"))
	h := b.Start()
	expect.Equal(t, "has a next turn", b.Finish(h), true)
	expect.Equal(t, "judged", errors.Is(h.Turn().Err, session.ErrTooLarge), true)
}

func turnLimits(messages, bytes int) actors.Setup {
	return func(c *protocol.Config) { c.TurnMessages, c.TurnBytes = messages, bytes }
}

// Messages collected beyond the limits of a turn are the next turn, also if their quiet window is
// not over: a full turn waits for no more.
func TestCollectedTurnHasItsLimits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	for name, c := range map[string]struct {
		limits actors.Setup
		text   string
		want   string
	}{
		"in messages":       {turnLimits(3, 1<<20), "", "bcd ef g"},
		"in bytes":          {turnLimits(500, 3000), long, "bc de f g"},
		"one that is long":  {turnLimits(500, 10), long, "b c d e f g"},
		"as many as it has": {turnLimits(5, 1<<20), "", "bcdef g"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
				b.Say("a")
				h := b.Start()
				for _, id := range []string{"b", "c", "d", "e", "f"} {
					_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: id, Text: id + c.text, Mode: session.ModeCollect})
					expect.OK(t, err)
				}
				windowsEnd(b, "b", "c", "d", "e", "f")
				b.Say("g")
				var ran []string
				for more := b.Finish(h); more; more = b.Finish(h) {
					ran = append(ran, strings.Join(actors.MessageIDs(h), ""))
				}
				expect.Equal(t, "turns", strings.Join(ran, " "), c.want)
				b.NothingLeft("at the end")
			}, c.limits, actors.Line(session.QueueSettings{Cap: 100}))
		})
	}
	t.Run("a full turn waits for no more", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t, turnLimits(2, 1<<20), actors.Line(session.QueueSettings{Cap: 100}))
		b.Say("a")
		h := b.Start()
		b.Say("b", session.ModeCollect)
		_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Release: true})
		expect.OK(t, err)
		b.ClaimNothing("its window is open")
		b.Say("c", session.ModeCollect)
		expect.List(t, "the next turn", actors.MessageIDs(b.Claim()), "b", "c")
	})
}

// Steer messages beyond the limits of a turn wait for a separate turn, and renewals do not report
// them again and again.
func TestSteeredTurnHasItsLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits actors.Setup
		want   int
	}{
		"in messages": {turnLimits(3, 1<<20), 2},
		"in bytes":    {turnLimits(500, 2500), 2}, // of some 1,150 each
		"of one":      {turnLimits(1, 1<<20), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
				b.Say("a")
				h := b.Start()
				var left []string
				for i := range 5 {
					id := fmt.Sprint("s", i)
					_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: id, Text: strings.Repeat("x", 1000), Mode: session.ModeSteer})
					expect.OK(t, err)
					if i >= c.want {
						left = append(left, id)
					}
				}
				taken, err := h.Steer(b.Ctx)
				expect.OK(t, err)
				expect.Equal(t, "taken", len(taken), c.want)
				expect.Equal(t, "there is more", h.SteerWaits(), false)
				expect.List(t, "the line", b.Waiting(), left...)
				again, err := h.Steer(b.Ctx)
				expect.OK(t, err)
				expect.Equal(t, "taken again", len(again), 0)
				expect.Equal(t, "reported by a renewal", b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Steer, false)
				var ran []string
				for more := b.Finish(h); more; more = b.Finish(h) {
					ran = append(ran, actors.MessageIDs(h)...)
				}
				expect.List(t, "turns of their own", ran, left...)
				b.NothingLeft("at the end")
			}, c.limits, actors.Line(session.QueueSettings{Cap: 100}))
		})
	}
}

// between puts IDs without a task at the end of the queue: they only take up room.
func between(b *actors.Bench, n int) {
	b.Helper()
	ids := make([]any, n)
	for i := range ids {
		ids[i] = b.Task(fmt.Sprint("gone", i))
	}
	expect.OK(b, b.Redis.LPush(b.Ctx, b.Keys.Pending(), ids...).Err())
}

// A steer searches both ends of a long queue. A message in the middle is found when those before it
// have been steered or had their turn.
func TestSteerOfALongLine(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, actors.Line(session.QueueSettings{Cap: 10_000}))
	b.Say("a")
	h := b.Start()
	b.Say("first", session.ModeSteer)
	between(b, 700)
	b.Say("deep", session.ModeSteer)
	between(b, 199)
	b.Say("mid", session.ModeSteer)
	between(b, 498)
	b.Say("last", session.ModeSteer)
	var got [][]string
	for {
		taken, err := h.Steer(b.Ctx)
		expect.OK(t, err)
		var ids []string
		for _, m := range taken {
			ids = append(ids, m.Message.ID)
		}
		got = append(got, ids)
		if !h.SteerWaits() {
			break
		}
		expect.Equal(t, "reported by a renewal", b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Steer, true)
	}
	expect.Equal(t, "taken", fmt.Sprint(got), "[[first mid last] []]")
	expect.Equal(t, "reported by a renewal", b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Steer, false)
	expect.Equal(t, "what is in the midst", b.State("deep"), "pending")
}

// The result of each message of a large turn does not list all messages, nor is the reply repeated
// until it does harm. The event has both.
func TestResultsOfALargeTurn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply   string
		replies bool
	}{
		"with a short reply": {"done", true},
		"with a long one":    {strings.Repeat("x", 200_000), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, actors.Line(session.QueueSettings{Cap: 100}))
			b.Say("a")
			h := b.Start()
			var ids []string
			for i := range 60 {
				ids = append(ids, fmt.Sprint(strings.Repeat("m", 100), i))
				b.Say(ids[i], session.ModeCollect)
			}
			windowsEnd(b, ids...)
			b.Finish(h)
			expect.Equal(t, "collected", len(actors.MessageIDs(h)), 60)
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Reply: c.reply})
			expect.OK(t, err)
			expect.Equal(t, "named by the event", len(eventsAbout(b, session.EventTurnEnded, ids[59])[0].Messages), 60)
			for i, id := range ids {
				result := b.Redis.HGet(b.Ctx, b.Keys.Task(b.Task(id)), "result").Val()
				o := b.Outcome(id)
				expect.Equal(t, "status", o.Status, session.StatusDone)
				expect.Equal(t, id+" names them all", strings.Contains(result, `"messages"`), i == 0)
				expect.Equal(t, id+" has the reply", o.Reply == c.reply, i == 0 || c.replies)
			}
		})
	}
}
