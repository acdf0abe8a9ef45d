package turnstile_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

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
func TestSubmitIndexesBeforeItEnqueues(t *testing.T) {
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

// On a Cluster two nodes get their parts of a pipeline at once. There Submit waits for the index,
// and enqueues nothing after an error.
func TestSubmitIndexesFirstOnACluster(t *testing.T) {
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
func TestSubmitRoundTrips(t *testing.T) {
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
