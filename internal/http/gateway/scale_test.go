package gateway_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

// What an autoscaler reads: one session runs, and another one waits for the only slot. Those that have ended do not
// count, and a broken one stops nobody.
func TestScale(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	began, end := make(chan struct{}, 2), make(chan struct{})
	w, err := worker.New(r.redis, agent.Func(func(context.Context, *agent.Turn) (agent.Result, error) {
		began <- struct{}{}
		<-end
		return agent.Result{Text: "done"}, nil
	}), worker.Config{Concurrency: 1, Logger: slog.New(slog.DiscardHandler)})
	expect.OK(t, err)
	expect.OK(t, w.Start(context.Background()))
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	type load struct {
		Slots, Running, Waiting int
		Wanted                  int `json:"wanted_slots"`
	}
	type scale struct {
		load
		Oldest float64 `json:"oldest_wait_seconds"`
		Agents map[string]load
	}
	soon := func(what string, want load) (got scale) {
		expect.Soon(t, what, func() bool {
			got = scale{}
			expect.OK(t, json.Unmarshal([]byte(r.call("GET", "/scale", nil).want(200).text), &got))
			return got.load == want && got.Agents["default"] == want
		})
		return got
	}
	soon("a free slot", load{Slots: 1})
	r.call("POST", "/v1/sessions/s1/messages", map[string]string{"text": "hello"}).want(202)
	expect.Received(t, "the first turn", began)
	r.call("POST", "/v1/sessions/s2/messages", map[string]string{"text": "hello"}).want(202)
	if got := soon("the load", load{Slots: 1, Running: 1, Waiting: 1, Wanted: 2}); got.Oldest < 0 || len(got.Agents) != 1 {
		t.Errorf("the load: %+v", got)
	}
	expect.OK(t, r.redis.Set(t.Context(), rediskey.For("broken").Record(), "x", time.Minute).Err())
	expect.OK(t, r.redis.ZAdd(t.Context(), rediskey.Owned, redis.Z{Score: 1e18, Member: "broken"}).Err())
	close(end)
	soon("nothing left", load{Slots: 1})
}
