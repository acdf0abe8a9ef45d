package protocol_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/stream"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// windowsEnd ends the quiet windows of collected messages.
func windowsEnd(b *actors.Bench, ids ...string) {
	b.Helper()
	for _, id := range ids {
		task := b.Keys.Task(b.Task(id))
		_, limit, ok := strings.Cut(b.Redis.HGet(b.Ctx, task, "quiet").Val(), " ")
		expect.Equal(b, id+" is collected", ok, true)
		b.Redis.HSet(b.Ctx, task, "quiet", "1 "+limit)
	}
}

// eventsAbout returns the events of one type that name a message.
func eventsAbout(b *actors.Bench, kind session.EventType, id string) (events []session.Event) {
	b.Helper()
	for _, m := range b.Redis.XRange(b.Ctx, b.Keys.Events(), "-", "+").Val() {
		for _, e := range stream.DecodeEvents(m) {
			if e.Type == kind && slices.Contains(e.Messages, id) {
				events = append(events, e)
			}
		}
	}
	return events
}

const long = session.Millis(time.Hour)

// Collected messages that are next to each other in the queue are one turn, and end with it.
func TestCollect(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.Say("a")
		h := b.Start()
		sid := h.Turn().TranscriptID
		for i, id := range []string{"b", "c"} {
			expect.Equal(t, "position", b.Say(id, session.ModeCollect).Position, i+2)
		}
		b.Say("d")
		b.Say("e", session.ModeCollect)
		list, err := b.Client.Operate(actors.Key).FollowUps(b.Ctx)
		expect.OK(t, err)
		expect.Equal(t, "b's state", list[0].State, session.MessageCollected)
		expect.Equal(t, "d's state", list[2].State, session.MessagePending)
		b.Redis.Del(b.Ctx, rediskey.Ready, rediskey.Due)
		expect.Equal(t, "has a next turn", b.Finish(h), false)
		expect.Equal(t, "is due later", b.IsIn(rediskey.Due, actors.Key) && !b.IsIn(rediskey.Ready, actors.Key), true)
		b.ClaimNothing("more may come")

		windowsEnd(b, "b")
		b.ClaimNothing("c's window is not over")
		windowsEnd(b, "c")
		h = b.Start()
		expect.List(t, "the turn", actors.MessageIDs(h), "b", "c")
		expect.List(t, "the line", b.Waiting(), "d", "e")
		expect.Equal(t, "messages of the session's turn", len(b.Info().Messages), 2)
		turn := h.Turn().ID
		waited := b.WaitFor("c")
		expect.Equal(t, "has a next turn", b.Finish(h), true)
		for _, o := range []session.Outcome{b.Outcome("b"), b.Outcome("c"), <-waited} {
			expect.Equal(t, "its end", string(o.Status)+" "+o.Reply+" "+o.Turn, "done re: b "+turn)
		}
		expect.List(t, "then", actors.MessageIDs(h), "d")
		expect.Equal(t, "has a next turn", b.Finish(h), false)
		windowsEnd(b, "e")
		h = b.Start()
		expect.List(t, "then", actors.MessageIDs(h), "e")
		b.Finish(h)
		expect.List(t, "transcript", b.Transcript(sid), "a", "re: a", "b", "c", "re: b", "d", "re: d", "e", "re: e")
		b.NothingLeft("at the end")
	}, actors.Line(session.QueueSettings{Debounce: long}))
}

// Each message starts the window again, also without an owner.
func TestCollectWaitsForQuiet(t *testing.T) {
	t.Parallel()
	const quiet = 500 * time.Millisecond
	b := actors.NewBench(t, actors.Line(session.QueueSettings{Mode: session.ModeCollect, Debounce: session.Millis(quiet)}))
	expect.Equal(t, "with nothing to wait for", b.Say("a").Status, receipt.Accepted)
	h := b.Start()
	expect.List(t, "the turn", actors.MessageIDs(h), "a")
	b.Say("b")
	b.Say("c")
	b.Redis.Del(b.Ctx, rediskey.Ready)
	b.Finish(h)
	last := b.Redis.Time(b.Ctx).Val()
	expect.Equal(t, "status", b.Say("d").Status, receipt.Accepted)
	expect.Soon(t, "the window's end", func() bool {
		b.Due()
		if !b.IsIn(rediskey.Ready, actors.Key) {
			return false
		}
		b.Redis.Del(b.Ctx, rediskey.Ready)
		claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key})
		expect.OK(t, err)
		if len(claims) > 0 {
			h = claims[0]
		}
		return len(claims) > 0
	})
	expect.List(t, "the turn", actors.MessageIDs(h), "b", "c", "d")
	if waited := h.Turn().StartedAt.Sub(last); waited < quiet-time.Millisecond {
		t.Errorf("the turn began %s after the last message, the window is %s", waited, quiet)
	}
}

// When the queue reaches the cap, the messages wait no longer, with or without an owner.
func TestCollectUpToTheCap(t *testing.T) {
	t.Parallel()
	t.Run("owned", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t, actors.Line(session.QueueSettings{Debounce: long, Cap: 2}))
		b.Say("a")
		h := b.Start()
		b.Say("b", session.ModeCollect)
		b.Say("c", session.ModeCollect)
		expect.Equal(t, "has a next turn", b.Finish(h), true)
		expect.List(t, "the turn", actors.MessageIDs(h), "b", "c")
	})
	t.Run("free", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t, actors.Line(session.QueueSettings{Debounce: long, Cap: 3}))
		b.Say("a")
		h := b.Start()
		b.Say("b", session.ModeCollect)
		b.Redis.Del(b.Ctx, rediskey.Ready)
		expect.Equal(t, "has a next turn", b.Finish(h), false)
		b.Say("c", session.ModeCollect)
		expect.Equal(t, "one too few wait", b.IsIn(rediskey.Ready, actors.Key), false)
		b.Say("d", session.ModeCollect)
		expect.Equal(t, "enough wait", b.IsIn(rediskey.Ready, actors.Key), true)
		b.Say("e", session.ModeCollect)
		h = b.Start()
		expect.List(t, "the turn", actors.MessageIDs(h), "b", "c", "d")
	})
}

// The busy mode is the message's, else the session's, else the worker's.
func TestBusyModeIsSaidByMessageSessionWorker(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, actors.Line(session.QueueSettings{Mode: session.ModeCollect, Debounce: long}))
	b.Say("a")
	b.Start()
	b.Say("b")
	expect.OK(t, b.Client.Session(actors.Key).SetQueue(b.Ctx, session.QueueSettings{Mode: session.ModeSteer}))
	b.Say("c")
	b.Say("d", session.ModeQueue)
	expect.OK(t, b.Client.Session(actors.Key).SetQueue(b.Ctx, session.QueueSettings{Mode: session.ModeReject}))
	expect.Equal(t, "by the session's settings", b.Say("e").Status, receipt.Refused)
	expect.Equal(t, "the message's own", b.Say("f", session.ModeQueue).Status, receipt.Queued)
	expect.OK(t, b.Client.Session(actors.Key).SetQueue(b.Ctx, session.QueueSettings{}))
	b.Say("g")
	list, err := b.Client.Operate(actors.Key).FollowUps(b.Ctx)
	expect.OK(t, err)
	var modes []string
	for _, f := range list {
		modes = append(modes, f.ID+" "+string(f.Mode))
	}
	expect.List(t, "modes", modes, "b collect", "c steer", "d queue", "f queue", "g collect")
}

// A collected turn stays one.
func TestCollectedTurnDies(t *testing.T) {
	t.Parallel()
	ends := map[string]func(b *actors.Bench, h *protocol.Claim){
		"crash": func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, actors.Checkpoint(b.Ctx, h, b.Done(h).Entries))
			b.Die()
		},
		"drain": func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, actors.Checkpoint(b.Ctx, h, b.Done(h).Entries))
			expect.OK(b, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
		},
		"retry": func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.Park(b.Ctx, protocol.Parking{Failed: errors.New("flaky")}))
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
				b.Say("now")
				h := b.Start()
				sid := h.Turn().TranscriptID
				b.SayCollected("b", "c", "d")
				b.Say("e")
				b.Finish(h)
				expect.OK(t, h.Promote(b.Ctx))
				expect.List(t, "the turn", actors.MessageIDs(h), "b", "c", "d")
				end(b, h)
				h = b.Start()
				expect.List(t, "its next run", actors.MessageIDs(h), "b", "c", "d")
				expect.Equal(t, "redelivered", h.Turn().Redelivered > 0, name != "retry")
				past, err := h.History(b.Ctx)
				expect.OK(t, err)
				expect.Equal(t, "it has the work", past.Earlier != nil, name != "retry")
				b.Finish(h)
				expect.List(t, "the next turn", actors.MessageIDs(h), "e")
				b.Finish(h)
				expect.List(t, "transcript", b.Transcript(sid), "now", "re: now", "b", "c", "d", "re: b", "e", "re: e")
				b.NothingLeft("at the end")
			})
		})
	}
}

// An interrupt finds the owner dead, or the owner dies before it ends the turn. The turn ends as
// requested and its checkpoint is kept; a rollback keeps nothing.
func TestInterruptedOwnerDies(t *testing.T) {
	t.Parallel()
	for mode, c := range map[session.Mode]struct {
		state, reason string
		kept          []string
		entries       int64
	}{
		session.ModeInterrupt: {"completed", "interrupted by a newer message", []string{"old", "re: old", "a", "half"}, 4},
		session.ModeRollback:  {"archived", "rolled back by a newer message", []string{"old", "re: old"}, 2},
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
				b.Say("old")
				b.Drain()
				b.SayAll("a", "behind")
				h := b.Start()
				expect.OK(t, actors.Checkpoint(b.Ctx, h, []session.Entry{
					{Role: session.RoleUser, Text: "a", Turn: h.Turn().ID}, {Role: session.RoleAssistant, Text: "half", Turn: h.Turn().ID, Interrupted: true},
				}))
				expect.Equal(t, "position", b.Say("now", mode).Position, 2)
				waited := b.WaitFor("a")
				b.Die()
				h = b.Start()
				expect.List(t, "the turn", actors.MessageIDs(h), "now")
				expect.Equal(t, "mark", h.Turn().Resume, "")
				expect.Equal(t, "entries so far", h.Turn().Entries, c.entries)
				for _, o := range []session.Outcome{b.Outcome("a"), <-waited} {
					expect.Equal(t, "its end", string(o.Status)+" "+o.Error, "interrupted "+c.reason)
				}
				expect.Equal(t, "its state", b.State("a"), c.state)
				past, err := h.History(b.Ctx)
				expect.OK(t, err)
				expect.Equal(t, "a journal is left", past.Earlier != nil, false)
				expect.List(t, "transcript", b.Transcript(h.Turn().TranscriptID), c.kept...)
				b.Finish(h)
				expect.List(t, "runs", b.Drain()) // finish took "behind"
				b.Die()
				expect.List(t, "runs", b.Drain(), "behind")
				n, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
				expect.OK(t, err)
				expect.Equal(t, "run again", n, 0)
			})
		})
	}
}

// One of several messages is archived, and the turn continues with the rest.
func TestDismiss(t *testing.T) {
	t.Parallel()
	for _, gone := range []string{"b", "c", "d"} {
		t.Run(gone, func(t *testing.T) {
			t.Parallel()
			actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
				b.Say("a")
				h := b.Start()
				b.SayCollected("b", "c", "d")
				b.Finish(h)
				waited := b.WaitFor(gone)
				for _, m := range h.Turn().Messages() {
					if m.Message.ID == gone {
						expect.OK(t, h.Dismiss(b.Ctx, m, protocol.End{Status: session.StatusExpired, Error: "too old"}))
					}
				}
				rest := slices.DeleteFunc([]string{"b", "c", "d"}, func(id string) bool { return id == gone })
				expect.List(t, "the turn", actors.MessageIDs(h), rest...)
				for _, o := range []session.Outcome{b.Outcome(gone), <-waited} {
					expect.Equal(t, "its end", string(o.Status)+" "+o.Error, "expired too old")
				}
				expect.OK(t, h.Promote(b.Ctx))
				b.Finish(h)
				for _, id := range rest {
					expect.Equal(t, "end of "+id, b.Outcome(id).Status, session.StatusDone)
				}
				expect.Equal(t, "end of "+gone, b.Outcome(gone).Status, session.StatusExpired)
				b.NothingLeft("at the end")
			})
		})
	}
}
