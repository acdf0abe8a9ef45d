package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/http/store"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

var errEnough = errors.New("enough")

// followAll returns the events, "session type", up to the ends of so many messages, and the last
// Resume.
func followAll(b *actors.Bench, client *store.Store, after int64, ends int) (all []string, resume int64) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, expect.Patience)
	defer cancel()
	err := client.AllEvents(ctx, after, func(string) bool { return true }, func(e store.AnyEvent) error {
		if resume = e.Resume; e.Session != "" {
			all = append(all, e.Session+" "+string(e.Type))
		}
		if e.Type == session.EventTurnEnded {
			ends -= len(e.Messages)
		}
		if ends <= 0 {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		b.Fatalf("%v after %q", err, all)
	}
	return all, resume
}

// No event is missed of a turn that began long before the resume time, or by a delayed message, and is
// over when the reader comes back: the jobs that wake a session and check its turn note its activity.
func TestAllEventsOfAnOldMessage(t *testing.T) {
	t.Parallel()
	for name, claim := range map[string]func(*actors.Bench) *protocol.Claim{
		"delayed": func(b *actors.Bench) *protocol.Claim {
			b.SayDelayed("m")
			b.Overdue(rediskey.Sessions)
			b.Redis.ZAdd(b.Ctx, rediskey.Due, redis.Z{Score: float64(b.RedisTime().UnixMilli()), Member: actors.Key})
			b.Due()
			return b.Start()
		},
		"long": func(b *actors.Bench) *protocol.Claim {
			b.Say("m")
			b.Pop()
			h := b.Start()
			b.Overdue(rediskey.Sessions)
			b.Overdue(rediskey.Owned)
			b.Reap()
			return h
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			after := b.RedisTime().UnixMilli() - 1 // an event of the same ms is not later
			h := claim(b)
			expect.OK(t, h.Emit(b.Ctx, nil))
			b.Finish(h)
			b.Redis.Del(b.Ctx, rediskey.Owned) // as after reap
			all, _ := followAll(b, store.New(b.Redis), after, 1)
			expect.Equal(t, "last", all[len(all)-1], actors.Key+" turn_ended")
		})
	}
}

// A reader that comes back after the events of an idle session were purged learns that they are gone, also of a session
// that began while it was away. A reader that was away only since the purge has no gap.
func TestAllEventsAfterAPurge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		began, away time.Duration
		next        bool
		want        session.EventType
	}{
		"away":                 {4 * time.Hour, 3 * time.Hour, false, session.EventGap},
		"it began since":       {2 * time.Hour, 3 * time.Hour, false, session.EventGap},
		"with a new turn":      {2 * time.Hour, 3 * time.Hour, true, session.EventGap},
		"away since the purge": {4 * time.Hour, time.Hour, true, session.EventTurnStarted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			b.Drain()
			b.AgeEvents(2 * time.Hour)
			expect.OK(t, b.Redis.HIncrBy(b.Ctx, b.Keys.Record(), "created_at", (2*time.Hour-c.began).Milliseconds()).Err())
			_, err := b.Worker.Purge(b.Ctx)
			expect.OK(t, err)
			if c.next {
				b.Say("b")
				b.Drain()
			}
			ctx, cancel := context.WithTimeout(b.Ctx, expect.Patience)
			defer cancel()
			var first session.EventType
			err = store.New(b.Redis).AllEvents(ctx, b.RedisTime().Add(-c.away).UnixMilli(), func(string) bool { return true }, func(e store.AnyEvent) error {
				if e.Session == "" {
					return nil
				}
				first = e.Type
				return errEnough
			})
			if !errors.Is(err, errEnough) {
				t.Error(err)
			}
			expect.Equal(t, "first", first, c.want)
		})
	}
}

// The ends of messages that a stop takes from the queue of an idle session are seen, despite outages and
// a broken session.
func TestAllEventsThroughOutages(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	b := actors.NewBench(t)
	faults := &redistest.Faults{}
	rdb := b.BareRedis()
	rdb.AddHook(faults)
	_, err := b.Client.Session("broken").Send(b.Ctx, turnstile.Message{ID: "m", Text: "x"})
	expect.OK(t, err)
	expect.OK(t, b.Redis.Set(b.Ctx, rediskey.For("broken").Events(), "no stream", 0).Err())
	_, err = b.Client.Session("idle").Send(b.Ctx, turnstile.Message{ID: "m", Text: "x", Delay: time.Hour})
	expect.OK(t, err)
	for i := range 3 {
		_, err = b.Client.Session("line").Send(b.Ctx, turnstile.Message{ID: fmt.Sprint(i), Text: "x"})
		expect.OK(t, err)
	}
	after := b.RedisTime().UnixMilli() - 1 // an event of the same ms is not later
	loading := redistest.ReplyError("LOADING Redis is loading the dataset in memory")
	for _, name := range []string{"time", "zscan", "evalsha", "xrevrange"} {
		faults.FailBefore(redistest.Named(name), 1, loading)
	}
	for _, key := range []string{"idle", "line"} {
		_, err = b.Client.Session(key).Stop(b.Ctx)
		expect.OK(t, err)
	}
	all, _ := followAll(b, store.New(rdb), after, 3)
	for _, e := range all {
		if strings.HasPrefix(e, "broken") {
			t.Errorf("seen %s", e)
		}
	}
}

// All readers share one that reads Redis, and each gets every event of its sessions once, also those that come while it
// joins, and when it falls behind.
func TestAllEventsHaveOneReader(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	b := actors.NewBench(t)
	faults := &redistest.Faults{}
	rdb := b.BareRedis()
	rdb.AddHook(faults)
	client := store.New(rdb)
	const readers, rounds = 20, 5
	ctx, cancel := context.WithCancel(b.Ctx)
	defer cancel()
	got := make(chan store.AnyEvent, 10_000)
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			_ = client.AllEvents(ctx, 0, func(string) bool { return true }, func(e store.AnyEvent) error {
				got <- e
				return nil
			})
		})
	}
	for range readers {
		expect.Equal(t, "first", expect.Received(t, "place", got).Type, session.EventPlace)
	}
	send := func(key, id string) {
		_, err := b.Client.Session(key).Send(b.Ctx, turnstile.Message{ID: id, Text: "x", Delay: time.Hour})
		expect.OK(t, err)
		_, _, err = actors.Cancel(b.Ctx, b.Client.Session(key), id, false)
		expect.OK(t, err)
	}
	ends := func() {
		for n := 0; n < readers; {
			if e := expect.Received(t, "event", got); e.Type == session.EventTurnEnded {
				n++
			}
		}
	}
	send("s", "first") // all have caught up
	ends()
	faults.ResetCounts()
	for i := range rounds {
		send("s", fmt.Sprint(i))
		ends()
	}
	if n := faults.CountNamed("zscan"); n > rounds*readers/2 {
		t.Errorf("%d looks at the sessions for %d events", n, rounds)
	}
	cancel()
	all.Wait()
	for len(got) > 0 {
		if e := <-got; e.Type != session.EventPlace {
			t.Errorf("again: %+v", e)
		}
	}
}

// A reader that falls behind reads by itself what the others have read, each event once.
func TestAllEventsOfASlowReader(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	b := actors.NewBench(t)
	client := store.New(b.Redis)
	client.SetLogMost(20_000) // some 20 events
	ctx, cancel := context.WithCancel(b.Ctx)
	defer cancel()
	read := func(wait <-chan struct{}) <-chan store.AnyEvent {
		got := make(chan store.AnyEvent, 10_000)
		go func() {
			_ = client.AllEvents(ctx, 0, func(string) bool { return true }, func(e store.AnyEvent) error {
				if got <- e; e.Type != session.EventPlace {
					<-wait
				}
				return nil
			})
			close(got)
		}()
		expect.Equal(t, "first", expect.Received(t, "place", got).Type, session.EventPlace)
		return got
	}
	read1, held := make(chan struct{}), make(chan struct{})
	close(read1)
	quick, slow := read(read1), read(held)
	var want []string
	for i := range 100 {
		id := fmt.Sprint(i)
		_, err := b.Client.Session("s").Send(b.Ctx, turnstile.Message{ID: id, Text: "x", Delay: time.Hour})
		expect.OK(t, err)
		_, _, err = actors.Cancel(b.Ctx, b.Client.Session("s"), id, false)
		expect.OK(t, err)
		want = append(want, id)
	}
	ends := func(got <-chan store.AnyEvent) (ids []string) {
		for len(ids) < len(want) {
			if e := expect.Received(t, "event", got); e.Type == session.EventTurnEnded {
				ids = append(ids, e.Messages...)
			}
		}
		return ids
	}
	expect.List(t, "the quick one's", ends(quick), want...)
	close(held)
	expect.List(t, "the slow one's", ends(slow), want...)
	cancel()
	for _, got := range []<-chan store.AnyEvent{quick, slow} {
		for e := range got {
			if e.Type != session.EventPlace {
				t.Errorf("again: %+v", e)
			}
		}
	}
}
