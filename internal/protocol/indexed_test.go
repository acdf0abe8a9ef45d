package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// roundTrips counts what a client sends: a pipeline is one.
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

// lose takes the session out of what finds it without a ring, as Unregister and
// Forget, an Erase, or a Redis that comes back empty do.
func (b *bench) lose() {
	expect.OK(b, b.rdb.SRem(b.ctx, rediskey.AllQueues, rediskey.Queue(key)).Err())
	for _, index := range []string{rediskey.Sessions, rediskey.Ready, rediskey.Owned, rediskey.Due} {
		expect.OK(b, b.rdb.Del(b.ctx, index).Err())
	}
}

// A sender that dies between the enqueue and the ring has told where the message is,
// whatever its process had told in its life before.
func TestSubmitIndexesBeforeItEnqueues(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.drain()
	b.lose()
	faults := &redistest.Faults{}
	b.rdb.AddHook(faults)
	faults.FailBefore(called("notify"), -1, io.ErrClosedPipe)
	if _, err := b.client.Submit(b.ctx, key, session.Message{ID: "b", Text: "b"}); !errors.Is(err, io.ErrClosedPipe) {
		t.Fatalf("error: %v", err)
	}
	faults.Clear()
	expect.Equal(t, "state", b.state("b"), "pending")
	expect.Equal(t, "known", b.isIn(rediskey.Sessions, key), true)
	expect.Equal(t, "listed", b.rdb.SIsMember(b.ctx, rediskey.AllQueues, rediskey.Queue(key)).Val(), true)
	expect.Equal(t, "found by the sweep", b.sweep(), 1)
	expect.List(t, "runs", b.drain(), "b")
}

// On a Cluster two nodes get their parts of a pipeline at once: there the index is
// waited for, and nothing is enqueued behind one that refuses its entry.
func TestSubmitIndexesFirstOnACluster(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	b := benchOn(t, redistest.StartCluster(t).Client())
	expect.OK(t, b.rdb.Set(b.ctx, rediskey.Sessions, "of a wrong type", 0).Err())
	if _, err := b.client.Submit(b.ctx, key, session.Message{ID: "a", Text: "a"}); err == nil {
		t.Error("no error")
	}
	expect.Equal(t, "state", b.state("a"), "")
	expect.OK(t, b.rdb.Del(b.ctx, rediskey.Sessions).Err())
	b.say("a")
	expect.List(t, "runs", b.drain(), "a")
}

// The index costs no round trip of its own.
func TestSubmitRoundTrips(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	trips := &roundTrips{}
	b.rdb.AddHook(trips)
	most := func(what string, most int64) {
		t.Helper()
		if n := trips.n.Swap(0); n > most {
			t.Errorf("%s: %d round trips", what, n)
		}
	}
	b.say("scripts") // which this server may not know yet
	trips.n.Store(0)
	_, err := b.client.Submit(b.ctx, "another", session.Message{ID: "a", Text: "a"})
	expect.OK(t, err)
	most("the first of a session", 4)
	b.say("idle")
	most("to an idle session", 3)
	h := b.start()
	trips.n.Store(0)
	b.say("behind")
	most("behind a turn", 2)
	b.finish(h)
}

// A client that lives long forgets the sessions that it has written to.
func TestClientForgetsSessions(t *testing.T) {
	t.Parallel()
	tasks := sq.NewEnqueuer(redistest.New(t), session.Limits{}.WithDefaults())
	const n = 300
	sq.SetEnqueuesPerClient(tasks, 100)
	for i := range n {
		_, err := tasks.Enqueue(t.Context(), fmt.Sprint("s", i), session.Message{ID: "m", Text: "x"}, "nonce", 0)
		if err != nil {
			t.Fatal(err)
		}
	}
	if known := sq.QueuesKnown(tasks); known > 100 {
		t.Errorf("%d queues are remembered", known)
	}
}
