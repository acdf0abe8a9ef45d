package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// On a Cluster, messages that are sent while others are in flight are listed in the indexes together. If a
// message's context ends while it waits for that, it is not stored.
func TestWaitingMessagesAreListedTogetherOnACluster(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: redistest.StartCluster(t).Client().Options().Addrs})
	t.Cleanup(func() { rdb.Close() })
	faults := &redistest.Faults{}
	rdb.OnNewNode(func(node *redis.Client) { node.AddHook(faults) })
	sender := protocol.NewSender(rdb)
	accept := func(ctx context.Context, sessionKey string) error {
		r, err := sender.Accept(ctx, protocol.Accept{
			Session: sessionKey, Message: wire.Message{ID: "m", Text: "m"}, Nonce: "nonce", Named: true,
			Limits: session.Limits{}.WithDefaults(), IdempotencyTTL: time.Hour,
		})
		if err == nil && (r.State != "idle" || r.Unnotified != nil) {
			err = fmt.Errorf("it was accepted as %+v", r)
		}
		return err
	}
	expect.OK(t, accept(t.Context(), "first")) // for the clock

	faults.ResetCounts()
	gate := faults.Gate(redistest.Named("sadd"))
	var wg sync.WaitGroup
	const inFlight, waiting = 3, 20
	for i := range inFlight + waiting {
		wg.Go(func() { expect.Equal(t, fmt.Sprint("message ", i), accept(t.Context(), fmt.Sprint("s", i)), nil) })
		if i < inFlight {
			expect.Received(t, "a list in flight", gate.Arrived())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := make(chan error, 1)
	go func() { cancelled <- accept(ctx, "cancelled") }()
	expect.Soon(t, "the others to wait", func() bool { return sender.Waiting() == waiting+1 })
	cancel()
	if err := expect.Received(t, "the cancelled one's error", cancelled); !errors.Is(err, context.Canceled) || !errors.Is(err, session.ErrUnchanged) {
		t.Errorf("the cancelled one: %v", err)
	}
	gate.Release()
	wg.Wait()
	expect.Equal(t, "commands that listed queues", faults.CountNamed("sadd"), inFlight+1)
	expect.Equal(t, "the cancelled one is stored", rdb.Exists(t.Context(), rediskey.For("cancelled").Pending()).Val(), 0)
	for i := range inFlight + waiting {
		for _, index := range []string{rediskey.Sessions, rediskey.Owned, rediskey.Ready} {
			expect.OK(t, rdb.ZScore(t.Context(), index, fmt.Sprint("s", i)).Err())
		}
	}
}
