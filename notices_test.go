package turnstile_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// With many followers a client asks the sessions' scripts for notices of new events. A follower then
// sees an event although the poller looks at no stream.
func TestNoticesOfEvents(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	options := *b.Redis.(*redis.Client).Options()
	options.PoolSize = 4
	rdb := redis.NewClient(&options)
	t.Cleanup(func() { rdb.Close() })
	faults := &redistest.Faults{}
	rdb.AddHook(faults)
	c := turnstile.NewClient(rdb)

	const followers = 150
	turn := func(key string) {
		_, err := receipt.Input(b.Ctx, b.Client.Session(key), turnstile.Message{Text: "hi"})
		expect.OK(t, err)
		claims, err := b.Worker.Claim(b.Ctx, []string{key})
		expect.OK(t, err)
		b.Finish(claims[0])
	}
	ctx, cancel := context.WithCancel(b.Ctx)
	defer cancel()
	seen, ended := make(chan string, 10*followers), make(chan error, followers)
	for i := range followers {
		key := fmt.Sprint("follow-", i)
		turn(key)
		go func() {
			ended <- actors.Events(ctx, c.Session(key), "", func(e session.Event) error {
				if e.Type == session.EventTurnEnded {
					seen <- key
				}
				return nil
			})
		}()
	}
	for range followers {
		<-seen
	}
	expect.Soon(t, "the workers are asked", func() bool { return faults.CountNamed("publish") > 0 })
	signals, stop := context.WithCancel(b.Ctx)
	ready, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		expect.OK(t, b.Worker.Signals(signals, func() { close(ready) }, func(protocol.Signal) {}))
	}()
	<-ready // it says so, and is asked again
	asked := faults.CountNamed("publish")
	expect.Soon(t, "the new worker is asked", func() bool { return faults.CountNamed("publish") > asked })
	gate := faults.Gate(actors.Script("events_page")) // the poller's look
	<-gate.Arrived()
	turn("follow-100")
	expect.Equal(t, "seen", expect.Received(t, "the event", seen), "follow-100")
	gate.Release()
	stop()
	<-over
	cancel()
	for range followers {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("events: %v", err)
		}
	}
}
