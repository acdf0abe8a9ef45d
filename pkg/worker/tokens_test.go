package worker_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"turnstile/internal/http/store"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// The day's tokens are those that all workers' agents have reported, however their turns ended. An
// absurd report is bounded, and a turn without a report costs nothing.
func TestTokensOfTheDay(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	operator := store.New(r.rdb)
	report := func(a *act, in, out int64) {
		a.Emit(agent.Event{Type: session.EventUsage, Usage: &session.Usage{InputTokens: in, OutputTokens: out}})
	}
	w := r.worker(s)
	r.say("m1", "x")
	s.next(t, "m1").reply("no report")
	r.ends("m1", session.StatusDone)
	keys, err := r.rdb.Keys(r.ctx, "turnstile:tokens:*").Result()
	expect.OK(t, err)
	expect.Equal(t, "keys", len(keys), 0)

	r.say("m2", "x")
	a := s.next(t, "m2")
	report(a, 1000, 20)
	report(a, -5, 3)
	a.reply("ok")
	r.say("m3", "x")
	a = s.next(t, "m3")
	report(a, 300, 1)
	a.fail(errors.New("no"))
	r.ends("m3", session.StatusFailed)
	expect.Soon(t, "the tokens", func() bool {
		used, err := operator.TokensToday(r.ctx)
		expect.OK(t, err)
		return used != nil && *used == session.Usage{InputTokens: 1300, OutputTokens: 24}
	})
	now, err := r.rdb.Time(r.ctx).Result()
	expect.OK(t, err)
	if ttl := r.rdb.TTL(r.ctx, rediskey.Tokens(now)).Val(); ttl <= 0 || ttl > 8*24*time.Hour {
		t.Errorf("they are kept for %s", ttl)
	}

	// A worker's end writes the last ones, also those that an outage delayed.
	faults := &redistest.Faults{}
	other := r.worker(s, faulty(faults))
	<-drain(w)
	r.say("m4", "x")
	a = s.next(t, "m4")
	faults.FailBefore(redistest.Named("hincrby"), 1, redistest.ReplyError("LOADING Redis is loading the dataset in memory"))
	report(a, math.MaxInt64, 0)
	a.reply("ok")
	r.ends("m4", session.StatusDone)
	<-drain(other)
	used, err := operator.TokensToday(r.ctx)
	expect.OK(t, err)
	expect.Equal(t, "at the end", *used, session.Usage{InputTokens: 1300 + 1<<40, OutputTokens: 24})
}
