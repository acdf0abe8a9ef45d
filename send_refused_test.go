package turnstile_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A refused message has its reason, and nothing else is removed.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.Line.Cap = 2 })
	b.Say("a")
	h := b.Start()
	r := b.Say("no", session.ModeReject)
	expect.Equal(t, "status", r.Status, receipt.Refused)
	expect.Equal(t, "reason", r.Reason, "busy")
	expect.Equal(t, "stored", b.State("no"), "")

	b.SayAll("b", "c")
	r = b.Say("d")
	expect.Equal(t, "status", r.Status, receipt.Refused)
	expect.Equal(t, "reason", r.Reason, "full")
	expect.Equal(t, "stored", b.State("d"), "")
	expect.List(t, "the line", b.Waiting(), "b", "c")

	// Another sender's message with the same ID stays, although it is over the cap.
	b.Enqueue("e")
	r = b.Say("e", session.ModeReject)
	expect.Equal(t, "status", r.Status, receipt.Duplicate)
	expect.List(t, "the line", b.Waiting(), "b", "c", "e")

	list, err := b.Client.Operate(actors.Key).FollowUps(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "follow-ups", len(list), 3)
	for b.Finish(h) {
	}
	expect.Equal(t, "now", b.Say("no", session.ModeReject).Status, receipt.Accepted)
}

// A sender that a parked turn refuses learns when the turn tries again, and what ends it. A turn that waits for a
// decision has no such time.
func TestRefusedByAParkedTurn(t *testing.T) {
	t.Parallel()
	for name, asks := range map[string]bool{"tries again": false, "asks": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			h := b.Start()
			p := protocol.Parking{Failed: errors.New("no"), Wait: time.Hour}
			if asks {
				_, err := h.AskFor(b.Ctx, "pay", session.Question{Name: "pay"})
				expect.OK(t, err)
				p = protocol.Parking{Question: 1, Wait: time.Hour}
			}
			expect.OK(t, h.Park(b.Ctx, p))
			_, err := b.Chat().Send(b.Ctx, turnstile.Message{ID: "no", Text: "no", Mode: session.ModeReject})
			want := fmt.Sprintf("message no of %s was refused: %v", actors.Key, session.ErrBusy)
			if !asks {
				want += "; its next attempt is at " + b.Info().Until.UTC().Format("15:04:05 UTC") + ", and /stop ends it"
			}
			expect.Equal(t, "error", fmt.Sprint(err), want)
			expect.Equal(t, "busy", errors.Is(err, session.ErrBusy), true)
		})
	}
}

// Refusals leave nothing that grows, however long the turn.
func TestRefusalsDoNotPileUp(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	for i := range 150 {
		b.Say(fmt.Sprint("no", i), session.ModeReject)
	}
	b.Say("b")
	b.Finish(h)
	if n := b.Redis.HLen(b.Ctx, b.Keys.Followups()).Val(); n > 100 {
		t.Errorf("%d entries are stored for refused messages", n)
	}
}

// The reply to a refusal is lost, and the turn in the way ends before the sender repeats the
// request: it is accepted then, once.
func TestRefusalIsDecidedAnew(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("now")
	h := b.Start()

	again, first := &redistest.Faults{}, &redistest.Faults{}
	again.RunTwice(actors.Script("accept"), 1)
	heard := first.GateReply(actors.Script("accept"))
	b.Redis.AddHook(again)
	b.Redis.AddHook(first)
	receipts := make(chan receipt.Receipt, 1)
	go func() {
		r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "new", Text: "new", Mode: session.ModeReject})
		if err != nil {
			t.Error(err)
		}
		receipts <- r
	}()
	<-heard.Arrived()
	b.Finish(h)
	heard.Release()
	r := <-receipts
	expect.Equal(t, "receipt", r.Status, receipt.Accepted)
	expect.List(t, "runs", b.Drain(), "new")
}

// A refusal leaves nothing.
func TestRefusalsLeaveNothing(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("now")
	b.Start()
	before := database(b)
	for range 3 {
		expect.Equal(t, "receipt", b.Say("new", session.ModeReject).Status, receipt.Refused)
	}
	actors.Same(t, "refusals", before, database(b))
}

// A message without an ID is stored, and the reply is lost. Before the sender repeats the request,
// the message runs and its task is deleted. Refusing the repetition is not refusing the message.
func TestRefusalOfARepetition(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode    session.Mode
		options []actors.Option
	}{
		"on the full path":                 {options: []actors.Option{actors.After("before")}},
		"on the full path behind the fast": {mode: session.ModeReject},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.Retention = 0 })
			b.Say("before")
			b.Drain()
			b.Load("accept")
			wire, ran := &redistest.Wire{}, 0
			wire.LoseReply(func(cmd redis.Cmder) bool {
				if !actors.Script("accept")(cmd) {
					return false
				}
				if ran == 0 && len(b.Waiting()) > 0 { // between the two attempts
					ran = len(b.Drain())
					b.Say("next")
					b.Start()
				}
				return true
			}, redistest.CarriedOut)
			client := actors.NewClient(wire.Client(t, b.Redis))
			r, err := receipt.Input(b.Ctx, client.Session(actors.Key), actors.With(turnstile.Message{Text: "x", Mode: c.mode}, c.options...))
			expect.Equal(t, "turns of the message", ran, 1)
			if !errors.Is(err, redisconn.ErrUnsure) || errors.Is(err, session.ErrUnchanged) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// roundTrips counts a client's requests; a pipeline is one.
type roundTrips struct{ n atomic.Int64 }

func (r *roundTrips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return next(ctx, network, addr)
	}
}

func (r *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.n.Add(1)
		return next(ctx, cmd)
	}
}

func (r *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.n.Add(1)
		return next(ctx, cmds)
	}
}

// A sender that dies after the script has indexed the session, whatever its process had indexed
// before.
func TestSendIndexesBeforeItEnqueues(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	b.LoseIndexes()
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	faults.LoseReply(actors.Script("accept"), -1)
	if _, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "b", Text: "b"}); !errors.Is(err, redistest.ErrLostReply) {
		t.Fatalf("error: %v", err)
	}
	faults.Clear()
	expect.Equal(t, "state", b.State("b"), "pending")
	expect.Equal(t, "known", b.IsIn(rediskey.Sessions, actors.Key), true)
	expect.Equal(t, "listed", b.Redis.SIsMember(b.Ctx, rediskey.AllQueues, rediskey.Queue(actors.Key)).Val(), true)
	expect.Equal(t, "found by the sweep", b.Sweep(), 1)
	expect.List(t, "runs", b.Drain(), "b")
}

// On a Cluster two nodes get their parts of a pipeline at once. There Send waits for the index,
// and enqueues nothing after an error.
func TestSendIndexesFirstOnACluster(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	b := actors.BenchOn(t, redistest.StartCluster(t).Client())
	expect.OK(t, b.Redis.Set(b.Ctx, rediskey.Sessions, "of a wrong type", 0).Err())
	if _, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "a", Text: "a"}); err == nil {
		t.Error("no error")
	}
	expect.Equal(t, "state", b.State("a"), "")
	expect.OK(t, b.Redis.Del(b.Ctx, rediskey.Sessions).Err())
	b.Say("a")
	expect.List(t, "runs", b.Drain(), "a")
}

// The index entry costs no separate round trip.
func TestSendRoundTrips(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	trips := &roundTrips{}
	b.Redis.AddHook(trips)
	most := func(what string, most int64) {
		t.Helper()
		if n := trips.n.Swap(0); n > most {
			t.Errorf("%s: %d round trips", what, n)
		}
	}
	b.Say("scripts") // this server may not know them yet
	trips.n.Store(0)
	_, err := receipt.Input(b.Ctx, b.Client.Session("another"), turnstile.Message{ID: "a", Text: "a"})
	expect.OK(t, err)
	most("the first of a session", 4)
	b.Say("idle")
	most("to an idle session", 3)
	h := b.Start()
	trips.n.Store(0)
	b.Say("behind")
	most("behind a turn", 2)
	b.Finish(h)
}
