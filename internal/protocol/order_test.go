package protocol_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/stream"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// Second invariant: retries, drains and crashes keep the order.
func TestRetriesDrainsAndCrashesKeepTheOrder(t *testing.T) {
	t.Parallel()
	back := map[string]func(b *actors.Bench, h *protocol.Claim){
		"retry": func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.Park(b.Ctx, protocol.Parking{Failed: errors.New("flaky")}))
		},
		"retry and wait": func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.Park(b.Ctx, protocol.Parking{Failed: errors.New("flaky"), Wait: 500 * time.Millisecond}))
			b.Redis.Del(b.Ctx, rediskey.Ready)
			b.ClaimNothing("the head has to wait")
			expect.Soon(b, "the wait's end", func() bool { b.Due(); return b.IsIn(rediskey.Ready, actors.Key) })
		},
		"requeue": func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
		},
		"crash": func(b *actors.Bench, _ *protocol.Claim) { b.Die() },
	}
	for name, f := range back {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.SayAll("a", "b", "c")
			h := b.Start()
			b.Finish(h) // b runs
			expect.OK(t, h.Promote(b.Ctx))
			b.Say("d")
			f(b, h)
			b.Say("e")
			h = b.Claim()
			expect.Equal(t, "comes first", h.Turn().Message.ID, "b")
			failed := name == "retry" || name == "retry and wait"
			expect.Equal(t, "attempt", h.Turn().Attempt, map[bool]int{true: 2, false: 1}[failed])
			expect.Equal(t, "redelivered", h.Turn().Redelivered, map[bool]int{true: 0, false: 1}[failed])
			expect.Equal(t, "resume mark", h.Turn().Resume, map[string]string{"crash": "crash", "requeue": "drain"}[name])
			b.Finish(h)
			for _, id := range []string{"c", "d"} {
				expect.Equal(t, "then", h.Turn().Message.ID, id)
				b.Finish(h)
			}
			expect.Equal(t, "last", h.Turn().Message.ID, "e")
			expect.Equal(t, "more", b.Finish(h), false)
			expect.List(t, "transcript", b.Transcript(h.Turn().TranscriptID), "a", "re: a", "b", "re: b", "c", "re: c", "d", "re: d", "e", "re: e")
		})
	}
}

// A turn of several messages that a death ends, ends for its followers and receivers in their order.
func TestDeadTurnEndsInOrder(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, actors.Line(session.QueueSettings{Debounce: long}))
	expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
	ids := []string{"b", "c", "d"}
	b.Say("a")
	h := b.Start()
	for _, id := range ids {
		b.Say(id, session.ModeCollect)
	}
	b.Finish(h)
	windowsEnd(b, ids...)
	stepped(b, b.Start(), 1) // its messages stay together
	b.Die()
	for range 3 { // without progress
		expect.List(t, "the turn", actors.MessageIDs(b.Start()), ids...)
		b.Die()
	}
	b.Doubt()
	b.ClaimNothing("its worker died three times")
	var ended []string
	for _, m := range b.Redis.XRange(b.Ctx, b.Keys.Events(), "-", "+").Val() {
		for _, e := range stream.DecodeEvents(m) {
			if e.Type == session.EventTurnEnded && e.Status == session.StatusFailed {
				ended = append(ended, e.Messages...)
			}
		}
	}
	expect.List(t, "for followers", ended, ids...)
	taken, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, []deliveries.Line{{Destination: "hook", MaxAge: time.Hour}}, time.Minute)
	expect.OK(t, err)
	expect.Equal(t, "deliveries", len(taken.Deliveries), 2) // the first is a's
	if want := `"messages":["` + strings.Join(ids, `","`) + `"]`; !strings.Contains(string(taken.Deliveries[1].Body), want) {
		t.Errorf("no %s in %s", want, taken.Deliveries[1].Body)
	}
}

// Delayed messages of one second come in the order of their enqueueing, whatever their IDs, after
// the messages that wait.
func TestOrderOfDelayedMessages(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	delayed := []string{"z", "m", "a", "k"}
	for _, id := range delayed {
		r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: id, Text: id, Delay: time.Hour})
		expect.OK(t, err)
		expect.Equal(t, "status", r.Status, receipt.Scheduled)
		if until := time.Until(r.At); until < 59*time.Minute || until > 61*time.Minute {
			t.Errorf("due in %s", until)
		}
	}
	b.ClaimNothing("all are delayed")
	if !b.IsIn(rediskey.Due, actors.Key) || b.IsIn(rediskey.Ready, actors.Key) {
		t.Error("a delayed message's session belongs into due, not into ready")
	}
	_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "first", Text: "x", Delay: 2 * time.Hour})
	expect.OK(t, err)
	at := float64(time.Now().Unix() - 10)
	for _, id := range append(delayed, "first") {
		b.Redis.ZAddXX(b.Ctx, b.Keys.Scheduled(), redis.Z{Score: at, Member: b.Task(id)})
	}
	b.Redis.ZAddXX(b.Ctx, b.Keys.Scheduled(), redis.Z{Score: at - 5, Member: b.Task("first")})
	b.Say("waiting")
	expect.List(t, "order", b.Drain(), "waiting", "first", "z", "m", "a", "k")
}

// A delayed message that becomes due while its session runs joins the queue when the turn ends.
func TestDelayedMessageJoinsAtFinish(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	b.SayDelayed("b")
	expect.Equal(t, "has a next turn", b.Finish(h), true)
	expect.Equal(t, "with", h.Turn().Message.ID, "b")
	if age := h.Turn().Age; age > time.Second {
		t.Errorf("a delayed message's age counts from its time, not %s", age)
	}
}

func TestInterruptGoesFirst(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	h := b.Start()
	r := b.Say("urgent", session.ModeInterrupt)
	expect.Equal(t, "position", r.Position, 2)
	expect.Equal(t, "duplicate's position", b.Say("urgent", session.ModeInterrupt).Position, 2)
	// A second interrupt: the newest comes first.
	expect.Equal(t, "position of another", b.Say("more-urgent", session.ModeInterrupt).Position, 2)
	if err := h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}); !errors.Is(err, protocol.ErrInterruptRequested) {
		t.Errorf("requeue of an interrupted turn: %v", err)
	}
	more, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusInterrupted, Entries: []session.Entry{{Text: "half", Interrupted: true}}})
	expect.OK(t, err)
	expect.Equal(t, "has a next turn", more, true)
	expect.Equal(t, "with", h.Turn().Message.ID, "more-urgent")
	expect.Equal(t, "status", b.Outcome("a").Status, session.StatusInterrupted)
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; r.Requested != nil {
		t.Errorf("requested of the next turn: %v", r.Requested)
	}
	b.Finish(h)
	expect.Equal(t, "then", h.Turn().Message.ID, "urgent")
	b.Finish(h)
	expect.Equal(t, "then", h.Turn().Message.ID, "b")
	b.Finish(h)
}

func TestInterruptOfAnIdleSessionIsAMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	expect.Equal(t, "status", b.Say("b", session.ModeInterrupt).Status, receipt.Accepted)
	expect.List(t, "order", b.Drain(), "a", "b")
}

// A worker's default mode applies: reject, then interrupt.
func TestBusyModeOfTheWorker(t *testing.T) {
	t.Parallel()
	for _, mode := range []session.Mode{session.ModeReject, session.ModeInterrupt} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.Line.Mode = mode })
			b.SayAll("a", "b")
			h := b.Start()
			r := b.Say("c")
			if mode == session.ModeReject {
				expect.Equal(t, "status", r.Status, receipt.Refused)
			} else {
				expect.Equal(t, "position", r.Position, 2)
				if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; !errors.Is(r.Requested, protocol.ErrInterruptRequested) {
					t.Errorf("requested: %v", r.Requested)
				}
			}
			expect.Equal(t, "a message's own mode", b.Say("d", session.ModeQueue).Status, receipt.Queued)
		})
	}
}

// IDs without a task at the head of the queue are skipped, and do not wake the session again and
// again.
func TestHeadOfTheLineIsGone(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 1} {
		for _, at := range []string{"claim", "finish"} {
			t.Run(fmt.Sprintf("%s/%d others", at, others), func(t *testing.T) {
				t.Parallel()
				b := actors.NewBench(t)
				b.Say("first")
				h := b.Start()
				b.SayAll("gone1", "gone2")
				if others > 0 {
					b.Say("there")
				}
				b.Redis.Del(b.Ctx, b.Keys.Task(b.Task("gone1")), b.Keys.Task(b.Task("gone2")))
				if at == "claim" {
					expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
					b.Redis.Del(b.Ctx, b.Keys.Task(b.Task("first")))
				} else {
					b.Finish(h)
					if others > 0 {
						expect.Equal(t, "next", h.Turn().Message.ID, "there")
						b.Finish(h)
					}
				}
				b.Drain()
				if others > 0 {
					expect.Equal(t, "status", b.Outcome("there").Status, session.StatusDone)
				}
				expect.List(t, "what is left in the line", b.Waiting())
				b.Redis.Del(b.Ctx, rediskey.Ready, rediskey.Due)
				expect.Equal(t, "woken again", b.Sweep(), 0)
			})
		}
	}
}

// Neither does a delayed ID without a task.
func TestDelayedMessageIsGone(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayDelayed("gone")
	b.Redis.Del(b.Ctx, b.Keys.Task(b.Task("gone")), rediskey.Due, rediskey.Ready)
	expect.List(t, "runs", b.Drain())
	expect.Equal(t, "scheduled", b.Redis.ZCard(b.Ctx, b.Keys.Scheduled()).Val(), 0)
}

// On a Cluster the parts of a pipeline go to their nodes at once. A wake-up waits until the session
// is in the owned index: reap finds it there if the worker that pops it dies.
func TestOwnedBeforeReadyOnACluster(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	cluster := redistest.StartCluster(t)
	whole := cluster.Client()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: whole.Options().Addrs})
	t.Cleanup(func() { rdb.Close() })
	faults := &redistest.Faults{}
	rdb.OnNewNode(func(node *redis.Client) { node.AddHook(faults) })
	refused := errors.New("the node of the owned index is away")
	owned := func(cmd redis.Cmder) bool {
		return cmd.Name() == "zadd" && slices.Contains(cmd.Args(), any(rediskey.Owned))
	}
	for name, wake := range map[string]func(b, broken *actors.Bench) error{
		"a sender": func(_, broken *actors.Bench) error {
			_, err := receipt.Input(broken.Ctx, broken.Client.Session(actors.Key), turnstile.Message{ID: "a", Text: "a"})
			return err
		},
		"sweep": func(b, broken *actors.Bench) error {
			b.Enqueue("a")
			_, _, err := broken.Worker.Sweep(b.Ctx, time.Minute)
			return err
		},
		"due": func(b, broken *actors.Bench) error {
			b.Enqueue("a")
			now := b.Redis.Time(b.Ctx).Val().UnixMilli()
			b.Redis.ZAdd(b.Ctx, rediskey.Due, redis.Z{Score: float64(now), Member: actors.Key})
			_, err := broken.Worker.Due(b.Ctx)
			return err
		},
		"reap": func(b, broken *actors.Bench) error {
			b.Enqueue("a")
			b.Redis.ZAdd(b.Ctx, rediskey.Owned, redis.Z{Score: 1, Member: actors.Key})
			_, _, err := broken.Worker.Reap(b.Ctx)
			return err
		},
		"a release": func(b, broken *actors.Bench) error {
			b.SayAll("a", "b")
			b.Pop()
			claims, err := broken.Worker.Claim(b.Ctx, []string{actors.Key})
			expect.OK(b, err)
			expect.OK(b, claims[0].Promote(b.Ctx))
			_, err = claims[0].Finish(b.Ctx, protocol.End{Status: session.StatusDone, Release: true})
			return err
		},
		"what is put back": func(b, broken *actors.Bench) error {
			return broken.Worker.PutBack(b.Ctx, []string{actors.Key})
		},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // they share the cluster
			for _, node := range cluster.Nodes {
				expect.OK(t, node.Client().FlushAll(t.Context()).Err())
			}
			b, broken := actors.BenchOn(t, whole), actors.BenchOn(t, rdb)
			faults.FailBefore(owned, -1, refused)
			err := wake(b, broken)
			faults.Clear()
			if err == nil {
				t.Error("no error")
			}
			expect.Equal(t, "ready", b.IsIn(rediskey.Ready, actors.Key), false)
		})
	}
}
