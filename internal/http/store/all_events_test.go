package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
