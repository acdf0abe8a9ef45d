package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// Messages that are sent while others are in flight are sent together: those of idle sessions
// on the fast path, those of a busy one on the full path, each with its own result. If a message's
// context ends while it waits, it is not stored.
func TestWaitingMessagesGoTogether(t *testing.T) {
	t.Parallel()
	b, faults := actors.NewBench(t), &redistest.Faults{}
	b.Say("first")
	h := b.Start() // actors.Key is busy from here on
	b.Redis.AddHook(faults)
	sender := protocol.NewSender(b.Redis)
	accept := func(ctx context.Context, sessionKey, id string) (protocol.Accepted, error) {
		return sender.Accept(ctx, protocol.Accept{
			Session: sessionKey, Message: wire.Message{ID: id, Text: id}, Nonce: id + " nonce", Named: true,
			Limits: session.Limits{}.WithDefaults(), IdempotencyTTL: time.Hour,
		})
	}
	for _, sessionKey := range []string{"known", actors.Key} { // for the clock and the scripts
		_, err := accept(b.Ctx, sessionKey, "loads")
		expect.OK(t, err)
	}

	gate := faults.Gate(actors.Script("accept"))
	var wg sync.WaitGroup
	idle := func(i int) {
		wg.Go(func() {
			r, err := accept(b.Ctx, fmt.Sprint("idle:", i), "m")
			if err != nil || r.State != "idle" || r.Unnotified != nil {
				t.Errorf("message %d: %+v, %v", i, r, err)
			}
		})
	}
	const inFlight, waiting, busy = 3, 20, 4
	for i := range inFlight {
		idle(i)
		<-gate.Arrived()
	}
	for i := range waiting {
		idle(inFlight + i)
	}
	places := make([]int64, busy)
	for i := range busy {
		wg.Go(func() {
			r, err := accept(b.Ctx, actors.Key, fmt.Sprint("behind", i))
			if err != nil || r.State != "queued" {
				t.Errorf("follow-up %d: %+v, %v", i, r, err)
				return
			}
			places[r.N-3]++
		})
	}
	ctx, cancel := context.WithCancel(b.Ctx)
	cancelled := make(chan error, 1)
	wg.Go(func() {
		_, err := accept(ctx, "cancelled", "m")
		cancelled <- err
	})
	for sender.Waiting() < waiting+busy+1 {
		runtime.Gosched()
	}
	cancel()
	if err := <-cancelled; !errors.Is(err, context.Canceled) || !errors.Is(err, session.ErrUnchanged) {
		t.Errorf("the cancelled one: %v", err)
	}
	faults.ResetCounts()
	gate.Release()
	wg.Wait()
	expect.Equal(t, "follow-ups at each place", fmt.Sprint(places), "[1 1 1 1]")
	expect.Equal(t, "the cancelled one is stored", b.Redis.Exists(b.Ctx, rediskey.For("cancelled").Pending()).Val(), 0)
	for i := range inFlight + waiting {
		sessionKey := fmt.Sprint("idle:", i)
		expect.Equal(t, sessionKey+" waits", b.Redis.LLen(b.Ctx, rediskey.For(sessionKey).Pending()).Val(), 1)
		for _, index := range []string{rediskey.Sessions, rediskey.Owned, rediskey.Ready} {
			expect.Equal(t, sessionKey+" in "+index, b.IsIn(index, sessionKey), true)
		}
	}
	// All that waited: one call of the fast path, a full one for each follow-up.
	expect.Equal(t, "scripts of those that waited", faults.CountNamed("evalsha")+faults.CountNamed("eval"), 1+busy)
	b.Finish(h)
}
