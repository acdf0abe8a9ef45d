package turnstile_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// cancelled cancels a message that is in no turn, and checks its outcome and its event.
func cancelled(b *actors.Bench, id string) {
	b.Helper()
	told := b.WaitFor(id)
	o, ended, err := actors.Cancel(b.Ctx, b.Client.Session(actors.Key), id, false)
	expect.OK(b, err)
	expect.Equal(b, "outcome", o, session.Outcome{Session: actors.Key, ID: id, Status: session.StatusStopped, Error: "stopped by user"})
	expect.Equal(b, "ended", ended, true)
	expect.Equal(b, "told", expect.Received(b, "the outcome", told), o)
	expect.Equal(b, "state", b.State(id), "archived")
}

// cancelling requests the end of a message's turn.
func cancelling(b *actors.Bench, id string) {
	b.Helper()
	if _, _, err := actors.Cancel(b.Ctx, b.Client.Session(actors.Key), id, false); !errors.Is(err, session.ErrRunning) {
		b.Errorf("without running: %v", err)
	}
	_, ended, err := actors.Cancel(b.Ctx, b.Client.Session(actors.Key), id, true)
	expect.OK(b, err)
	expect.Equal(b, "ended", ended, false)
}

// stops checks that the end of the turn is requested, and ends it.
func stops(b *actors.Bench, h *protocol.Claim) {
	b.Helper()
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; !errors.Is(r.Requested, protocol.ErrStopRequested) {
		b.Errorf("requested: %v", r.Requested)
	}
	_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusStopped, Error: "stopped by user"})
	expect.OK(b, err)
}

func TestCancelWhatWaits(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.Say("now")
		h := b.Start()
		b.SayAll("a", "b", "c")
		cancelled(b, "b")
		if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; r.Requested != nil {
			t.Errorf("requested of the turn: %v", r.Requested)
		}
		expect.List(t, "the line", b.Waiting(), "a", "c")
		b.Replies("/resume", "Rerunning 1 message.")
		expect.List(t, "the line after /resume", b.Waiting(), "a", "c", "b")
		cancelled(b, "c")
		b.Finish(h)
		expect.Equal(t, "next", h.Turn().Message.ID, "a")
	})
}

func TestCancelWhatIsDelayed(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		for _, id := range []string{"a", "b"} {
			_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: id, Text: id, Delay: time.Hour})
			expect.OK(t, err)
		}
		cancelled(b, "a")
		expect.Equal(t, "the other", b.State("b"), "scheduled")
	})
}

// The others of a collection stay one.
func TestCancelWhatIsCollected(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.Say("now")
		h := b.Start()
		b.SayCollected("a", "b", "c")
		cancelled(b, "b")
		b.Finish(h)
		expect.List(t, "the turn", actors.MessageIDs(h), "a", "c")
		// They are one turn now: the end of one is the end of both.
		b.Say("next")
		expect.OK(t, h.Promote(b.Ctx))
		cancelling(b, "c")
		stops(b, h)
		expect.Equal(t, "a", b.Outcome("a").Status, session.StatusStopped)
		expect.Equal(t, "c", b.Outcome("c").Status, session.StatusStopped)
		expect.Equal(t, "next", h.Turn().Message.ID, "next")
	})
}

// A turn that waits for its next attempt ends, and the session is woken.
func TestCancelWhatIsRetried(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.Say("a")
		h := b.Start()
		b.Say("b")
		expect.OK(t, h.Park(b.Ctx, protocol.Parking{Failed: errors.New("x"), Wait: time.Hour}))
		b.Pop()
		cancelling(b, "a")
		expect.List(t, "woken", b.Pop(), actors.Key)
		expect.List(t, "runs", b.Drain(), "b")
		expect.Equal(t, "a", b.Outcome("a").Status, session.StatusStopped)
	})
}

// One of several messages of a turn that waits, and has done nothing, only leaves the turn.
func TestCancelOneOfATurnThatWaits(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.Say("now")
		h := b.Start()
		b.SayCollected("a", "b", "c")
		b.Finish(h)
		expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
		o, ended, err := actors.Cancel(b.Ctx, b.Client.Session(actors.Key), "b", true)
		expect.OK(t, err)
		expect.Equal(t, "ended", ended, true)
		expect.Equal(t, "status", o.Status, session.StatusStopped)
		h = b.Start()
		expect.List(t, "the turn", actors.MessageIDs(h), "a", "c")
		b.Finish(h)
	})
}

// The queue stays.
func TestCancelWhatRuns(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.SayAll("a", "b")
		h := b.Claim()
		cancelling(b, "a") // before its agent starts
		if err := h.Promote(b.Ctx); !errors.Is(err, protocol.ErrStopRequested) {
			t.Errorf("promote: %v", err)
		}
		stops(b, h)
		expect.OK(t, h.Promote(b.Ctx))
		b.Say("c", session.ModeSteer)
		_, err := h.Steer(b.Ctx)
		expect.OK(t, err)
		b.Say("d")
		cancelling(b, "c") // it was steered in, so it is part of the turn
		stops(b, h)
		for _, id := range []string{"a", "b", "c"} {
			expect.Equal(t, id, b.Outcome(id).Status, session.StatusStopped)
		}
		expect.Equal(t, "next", h.Turn().Message.ID, "d")
		if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; r.Requested != nil {
			t.Errorf("requested of the next turn: %v", r.Requested)
		}
	})
}

// The next claim ends the turn of a dead owner.
func TestCancelOfADeadTurn(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.SayAll("a", "b")
		b.Renew(b.Start())
		b.Die()
		cancelling(b, "a")
		expect.List(t, "runs", b.Drain(), "b")
		expect.Equal(t, "a", b.Outcome("a").Status, session.StatusStopped)
	})
}

// A turn of a stock asynq.Server has no owner that could be asked.
func TestCancelOfAnothersTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("before")
	b.Drain()
	began, end := make(chan string, 1), make(chan struct{})
	defer b.StockServer(func(context.Context, *asynq.Task) error {
		began <- "a"
		<-end
		return nil
	})()
	b.Enqueue("a")
	expect.Received(t, "the turn", began)
	defer close(end)
	if _, _, err := actors.Cancel(b.Ctx, b.Client.Session(actors.Key), "a", true); !errors.Is(err, session.ErrRunning) {
		t.Error(err)
	}
	expect.Equal(t, "stop", b.Redis.HGet(b.Ctx, b.Keys.Run(), "stop").Val(), "")
}

func TestCancelWhatHasEnded(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	b.Drain()
	for range 2 {
		o, ended, err := actors.Cancel(b.Ctx, b.Client.Session(actors.Key), "a", true)
		expect.OK(t, err)
		expect.Equal(t, "ended", ended, true)
		expect.Equal(t, "outcome", o, b.Outcome("a"))
		expect.Equal(t, "status", o.Status, session.StatusDone)
	}
	if _, _, err := actors.Cancel(b.Ctx, b.Client.Session(actors.Key), "another", true); !errors.Is(err, session.ErrNotFound) {
		t.Error(err)
	}
	if _, _, err := actors.Cancel(b.Ctx, b.Client.Session("a b"), "a", true); !errors.Is(err, session.ErrInvalid) {
		t.Error(err)
	}
	b.Redis.Del(b.Ctx, b.Keys.Task(b.Task("b")))
	if _, _, err := actors.Cancel(b.Ctx, b.Client.Session(actors.Key), "b", true); !errors.Is(err, session.ErrNotFound) {
		t.Error(err)
	}
}

// A repetition has the first result, whatever has happened since.
func TestCancelSentAgain(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("now", "a")
	h := b.Start()
	b.Redis.AddHook(actors.SendTwice(actors.Script("cancel"), func() {
		b.Replies("/resume", "Rerunning 1 message.")
	}))
	cancelled2 := func(id string, running bool) bool {
		t.Helper()
		_, ended, err := actors.Cancel(b.Ctx, b.Client.Session(actors.Key), id, running)
		expect.OK(t, err)
		return ended
	}
	expect.Equal(t, "ended", cancelled2("a", false), true)
	expect.List(t, "the line", b.Waiting(), "a")
	b.Redis.AddHook(actors.SendTwice(actors.Script("cancel"), func() {
		stops(b, h)
		expect.OK(t, h.Promote(b.Ctx))
	}))
	expect.OK(t, b.Chat().CancelTurn(b.Ctx, "now"))
	expect.Equal(t, "next", h.Turn().Message.ID, "a")
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; r.Requested != nil {
		t.Errorf("requested of the next turn: %v", r.Requested)
	}
}

// A message that a /stop has found, and not archived yet, is cancelled as one that waits.
func TestCancelBesideAStop(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for _, id := range []string{"a", "b", "c"} {
		b.Say(id)
	}
	batches := actors.Script("stop")
	b.Redis.AddHook(actors.Hook(inBatchesOfOne))
	dying := b.BareRedis()
	dying.AddHook(actors.Hook(inBatchesOfOne))
	ctx, die := context.WithCancel(b.Ctx)
	defer die()
	dying.AddHook(actors.Behind(batches, die))
	if _, err := actors.NewClient(dying).Session(actors.Key).Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	expect.Equal(t, "left to archive", b.Redis.LLen(b.Ctx, b.Keys.Stopped()).Val(), 2)
	cancelled(b, "b")
	b.ClaimNothing("the rest is archived")
	b.StopEnded(3)
}

// A message is found anywhere in a long queue.
func TestCancelInALongLine(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for i, id := range []string{"first", "middle", "last"} {
		b.Say(id)
		if i < 2 {
			b.SayMany(id, 2500)
		}
	}
	for i, id := range []string{"middle", "last", "first"} {
		cancelled(b, id)
		expect.Equal(t, "the line", len(b.Waiting()), 5002-i) // that many are left
	}
}

// A cancellation that arrives after its sender gave up changes nothing.
func TestLateCancel(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	late := &heldBack{script: "cancel"}
	b.Redis.AddHook(actors.Hook(late.around))
	ctx, giveUp := context.WithTimeout(b.Ctx, 300*time.Millisecond)
	defer giveUp()
	if _, _, err := actors.Cancel(ctx, b.Client.Session(actors.Key), "a", true); err == nil {
		t.Fatal("it was not held back")
	}
	b.Pass(310 * time.Millisecond)
	expect.Equal(t, "result", late.deliver(b), "[late]")
	expect.List(t, "the line", b.Waiting(), "a")
	b.Redis.AddHook(slowly{ago: time.Minute})
	if _, _, err := actors.Cancel(b.Ctx, b.Client.Session(actors.Key), "a", true); !errors.Is(err, session.ErrUnchanged) || !strings.Contains(err.Error(), "too late") {
		t.Error(err)
	}
	if n := b.Redis.Exists(b.Ctx, rediskey.For(actors.Key).Archived()).Val(); n != 0 {
		t.Error("there is a dead letter")
	}
}

// inBatchesOfOne makes /stop and claims archive one message at a time.
func inBatchesOfOne(cmds []redis.Cmder, send func() error) error {
	for _, cmd := range cmds {
		for i, arg := range cmd.Args() {
			if arg == "500 4194304" {
				cmd.Args()[i] = "1 4194304"
			}
		}
	}
	return send()
}
