package protocol_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// onceAndTwice plays a story as it is, and with every script and index command
// carried out twice, as after a reply that got lost.
func onceAndTwice(t *testing.T, story func(t *testing.T, b *bench), changes ...setup) {
	t.Helper()
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		story(t, newBench(t, changes...))
	})
	t.Run("each command twice", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, changes...)
		faults := &redistest.Faults{}
		faults.RunTwice(redistest.Named("evalsha", "eval", "zadd", "sadd"), -1)
		b.rdb.AddHook(faults)
		story(t, b)
	})
}

func line(s session.QueueSettings) setup { return func(c *sq.Config) { c.Line = s } }

// group are the ids of a turn's messages.
func group(h *sq.Claim) (ids []string) {
	for _, m := range h.Turn().Messages() {
		ids = append(ids, m.Message.ID)
	}
	return ids
}

// windowsEnd ends the quiet windows of messages that are collected.
func (b *bench) windowsEnd(ids ...string) {
	b.Helper()
	for _, id := range ids {
		task := b.k.Task(b.task(id))
		_, limit, ok := strings.Cut(b.rdb.HGet(b.ctx, task, "quiet").Val(), " ")
		expect.Equal(b, id+" is collected", ok, true)
		b.rdb.HSet(b.ctx, task, "quiet", "1 "+limit)
	}
}

// told are the events of one type that name a message.
func (b *bench) told(kind, id string) (events []session.Event) {
	b.Helper()
	for _, m := range b.rdb.XRange(b.ctx, b.k.Events(), "-", "+").Val() {
		for _, e := range sq.DecodeEvents(m) {
			if e.Type == kind && slices.Contains(e.Messages, id) {
				events = append(events, e)
			}
		}
	}
	return events
}

const long = session.Millis(time.Hour)

// Those next to each other in the line are one turn, whose end is each one's.
func TestCollect(t *testing.T) {
	t.Parallel()
	onceAndTwice(t, func(t *testing.T, b *bench) {
		b.say("a")
		h := b.start()
		sid := h.Turn().SessionID
		for i, id := range []string{"b", "c"} {
			expect.Equal(t, "position", b.say(id, session.ModeCollect).Position, i+2)
		}
		b.say("d")
		b.say("e", session.ModeCollect)
		list, err := b.client.Followups(b.ctx, key)
		expect.OK(t, err)
		expect.Equal(t, "b's state", list[0].State, session.FollowupCollected)
		expect.Equal(t, "d's state", list[2].State, session.FollowupQueued)
		b.rdb.Del(b.ctx, rediskey.Ready, rediskey.Due)
		expect.Equal(t, "goes on", b.finish(h), false)
		expect.Equal(t, "is due later", b.isIn(rediskey.Due, key) && !b.isIn(rediskey.Ready, key), true)
		b.claimNothing("more may come")

		b.windowsEnd("b")
		b.claimNothing("c's window is not over")
		b.windowsEnd("c")
		h = b.start()
		expect.List(t, "the turn", group(h), "b", "c")
		expect.List(t, "the line", b.waiting(), "d", "e")
		expect.Equal(t, "messages of the session's turn", len(b.info().Messages), 2)
		turn := h.Turn().ID
		waited := b.waitFor("c")
		expect.Equal(t, "goes on", b.finish(h), true)
		for _, o := range []session.Outcome{b.outcome("b"), b.outcome("c"), <-waited} {
			expect.Equal(t, "its end", string(o.Status)+" "+o.Reply+" "+o.Turn, "done re: b "+turn)
		}
		expect.List(t, "then", group(h), "d")
		expect.Equal(t, "goes on", b.finish(h), false)
		b.windowsEnd("e")
		h = b.start()
		expect.List(t, "then", group(h), "e")
		b.finish(h)
		expect.List(t, "transcript", b.transcript(sid), "a", "re: a", "b", "c", "re: b", "d", "re: d", "e", "re: e")
		b.nothingLeft("at the end")
	}, line(session.QueueSettings{Debounce: long}))
}

// The window begins anew with every message, also when nobody owns the session.
func TestCollectWaitsForQuiet(t *testing.T) {
	t.Parallel()
	const quiet = 500 * time.Millisecond
	b := newBench(t, line(session.QueueSettings{Mode: session.ModeCollect, Debounce: session.Millis(quiet)}))
	expect.Equal(t, "with nothing to wait for", b.say("a").Status, turnstile.Accepted)
	h := b.start()
	expect.List(t, "the turn", group(h), "a")
	b.say("b")
	b.say("c")
	b.rdb.Del(b.ctx, rediskey.Ready)
	b.finish(h)
	last := b.rdb.Time(b.ctx).Val()
	expect.Equal(t, "status", b.say("d").Status, turnstile.Accepted)
	expect.Soon(t, "the window's end", func() bool {
		b.due()
		if !b.isIn(rediskey.Ready, key) {
			return false
		}
		b.rdb.Del(b.ctx, rediskey.Ready)
		holds, err := b.c.Claim(b.ctx, []string{key})
		expect.OK(t, err)
		if len(holds) > 0 {
			h = holds[0]
		}
		return len(holds) > 0
	})
	expect.List(t, "the turn", group(h), "b", "c", "d")
	if waited := h.Turn().StartedAt.Sub(last); waited < quiet-time.Millisecond {
		t.Errorf("the turn began %s after the last message, the window is %s", waited, quiet)
	}
}

// As many as the cap wait no longer, whether the session is owned or not.
func TestCollectUpToTheCap(t *testing.T) {
	t.Parallel()
	t.Run("owned", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, line(session.QueueSettings{Debounce: long, Cap: 2}))
		b.say("a")
		h := b.start()
		b.say("b", session.ModeCollect)
		b.say("c", session.ModeCollect)
		expect.Equal(t, "goes on", b.finish(h), true)
		expect.List(t, "the turn", group(h), "b", "c")
	})
	t.Run("free", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, line(session.QueueSettings{Debounce: long, Cap: 3}))
		b.say("a")
		h := b.start()
		b.say("b", session.ModeCollect)
		b.rdb.Del(b.ctx, rediskey.Ready)
		expect.Equal(t, "goes on", b.finish(h), false)
		b.say("c", session.ModeCollect)
		expect.Equal(t, "one too few wait", b.isIn(rediskey.Ready, key), false)
		b.say("d", session.ModeCollect)
		expect.Equal(t, "enough wait", b.isIn(rediskey.Ready, key), true)
		b.say("e", session.ModeCollect)
		h = b.start()
		expect.List(t, "the turn", group(h), "b", "c", "d")
	})
}

// A message says what it does, else its session, else the worker.
func TestBusyModeIsSaidByMessageSessionWorker(t *testing.T) {
	t.Parallel()
	b := newBench(t, line(session.QueueSettings{Mode: session.ModeCollect, Debounce: long}))
	b.say("a")
	b.start()
	b.say("b")
	expect.OK(t, b.client.Configure(b.ctx, key, session.QueueSettings{Mode: session.ModeSteer}))
	b.say("c")
	b.say("d", session.ModeQueue)
	expect.OK(t, b.client.Configure(b.ctx, key, session.QueueSettings{Mode: session.ModeReject}))
	expect.Equal(t, "by the session's settings", b.say("e").Status, turnstile.Refused)
	expect.Equal(t, "the message's own", b.say("f", session.ModeQueue).Status, turnstile.Queued)
	expect.OK(t, b.client.Configure(b.ctx, key, session.QueueSettings{}))
	b.say("g")
	list, err := b.client.Followups(b.ctx, key)
	expect.OK(t, err)
	var modes []string
	for _, f := range list {
		modes = append(modes, f.ID+" "+string(f.Mode))
	}
	expect.List(t, "modes", modes, "b collect", "c steer", "d queue", "f queue", "g collect")
}

// A dead turn of several messages comes back one message a turn.
func TestCollectedTurnDies(t *testing.T) {
	t.Parallel()
	ends := map[string]func(b *bench, h *sq.Claim){
		"crash": func(b *bench, h *sq.Claim) {
			expect.OK(b, h.Checkpoint(b.ctx, b.done(h).Entries))
			b.die()
		},
		"drain": func(b *bench, h *sq.Claim) { expect.OK(b, h.Requeue(b.ctx, "drain", b.done(h).Entries...)) },
		"retry": func(b *bench, h *sq.Claim) { expect.OK(b, h.Retry(b.ctx, errors.New("flaky"), 0)) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onceAndTwice(t, func(t *testing.T, b *bench) {
				b.say("now")
				h := b.start()
				sid := h.Turn().SessionID
				b.collected("b", "c", "d")
				b.say("e")
				b.finish(h)
				expect.OK(t, h.Promote(b.ctx))
				expect.List(t, "the turn", group(h), "b", "c", "d")
				end(b, h)
				h = b.start()
				for _, id := range []string{"b", "c", "d", "e"} {
					expect.List(t, "the turn", group(h), id)
					expect.Equal(t, "redelivered", h.Turn().Redelivered > 0, name != "retry" && id != "e")
					past, err := h.History(b.ctx)
					expect.OK(t, err)
					expect.Equal(t, id+" has the partial", past.Partial != nil, name != "retry" && id == "b")
					b.finish(h)
				}
				expect.List(t, "transcript", b.transcript(sid), "now", "re: now", "b", "re: b", "c", "re: c", "d", "re: d", "e", "re: e")
				b.nothingLeft("at the end")
			})
		})
	}
}

// An interrupt that finds the owner dead, or whose owner dies before it ends the
// turn: the turn ends so, and what it had done is kept, of a rollback nothing.
func TestInterruptedOwnerDies(t *testing.T) {
	t.Parallel()
	for mode, c := range map[session.Mode]struct {
		state, reason string
		kept          []string
		entries       int64
	}{
		session.ModeInterrupt: {"completed", "interrupted by a newer message", []string{"old", "re: old", "a", "half"}, 4},
		// One more: who remembers the turn is not to go on from there.
		session.ModeRollback: {"archived", "rolled back by a newer message", []string{"old", "re: old"}, 3},
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			onceAndTwice(t, func(t *testing.T, b *bench) {
				b.say("old")
				b.drain()
				b.sayAll("a", "behind")
				h := b.start()
				expect.OK(t, h.Checkpoint(b.ctx, []session.Entry{
					{Role: session.RoleUser, Text: "a", Turn: h.Turn().ID}, {Role: session.RoleAssistant, Text: "half", Turn: h.Turn().ID, Interrupted: true},
				}))
				expect.Equal(t, "position", b.say("now", mode).Position, 2)
				waited := b.waitFor("a")
				b.die()
				h = b.start()
				expect.List(t, "the turn", group(h), "now")
				expect.Equal(t, "mark", h.Turn().Resume, "")
				expect.Equal(t, "entries so far", h.Turn().Entries, c.entries)
				for _, o := range []session.Outcome{b.outcome("a"), <-waited} {
					expect.Equal(t, "its end", string(o.Status)+" "+o.Error, "interrupted "+c.reason)
				}
				expect.Equal(t, "its state", b.state("a"), c.state)
				past, err := h.History(b.ctx)
				expect.OK(t, err)
				expect.Equal(t, "a partial is left", past.Partial != nil, false)
				expect.List(t, "transcript", b.transcript(h.Turn().SessionID), c.kept...)
				b.finish(h)
				expect.List(t, "runs", b.drain()) // "behind" was taken by finish
				b.die()
				expect.List(t, "runs", b.drain(), "behind")
				n, err := b.client.Rerun(b.ctx, key)
				expect.OK(t, err)
				expect.Equal(t, "run again", n, 0)
			})
		})
	}
}

// One of several messages is put aside, and the turn goes on with the rest.
func TestDismiss(t *testing.T) {
	t.Parallel()
	for _, gone := range []string{"b", "c", "d"} {
		t.Run(gone, func(t *testing.T) {
			t.Parallel()
			onceAndTwice(t, func(t *testing.T, b *bench) {
				b.say("a")
				h := b.start()
				b.collected("b", "c", "d")
				b.finish(h)
				waited := b.waitFor(gone)
				for _, m := range h.Turn().Messages() {
					if m.Message.ID == gone {
						expect.OK(t, h.Dismiss(b.ctx, m, session.StatusExpired, "too old"))
					}
				}
				rest := slices.DeleteFunc([]string{"b", "c", "d"}, func(id string) bool { return id == gone })
				expect.List(t, "the turn", group(h), rest...)
				for _, o := range []session.Outcome{b.outcome(gone), <-waited} {
					expect.Equal(t, "its end", string(o.Status)+" "+o.Error, "expired too old")
				}
				expect.OK(t, h.Promote(b.ctx))
				b.finish(h)
				for _, id := range rest {
					expect.Equal(t, "end of "+id, b.outcome(id).Status, session.StatusDone)
				}
				expect.Equal(t, "end of "+gone, b.outcome(gone).Status, session.StatusExpired)
				b.nothingLeft("at the end")
			})
		})
	}
}
