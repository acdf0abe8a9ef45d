package admin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// bad is a session like actors.Key, with the same messages, but it gets broken.
const bad = "agent:main:telegram:dm:66"

// breaks are what a program with the tenant's Redis user may put into a key.
var breaks = map[string]func(p redis.Pipeliner, key string){
	"a string": func(p redis.Pipeliner, key string) { p.Set(context.Background(), key, "x", 0) },
	"a list":   func(p redis.Pipeliner, key string) { p.RPush(context.Background(), key, "x") },
	"a hash":   func(p redis.Pipeliner, key string) { p.HSet(context.Background(), key, "x", "x") },
	"a zset":   func(p redis.Pipeliner, key string) { p.ZAdd(context.Background(), key, redis.Z{Score: 1, Member: "x"}) },
	"a stream": func(p redis.Pipeliner, key string) {
		p.XAdd(context.Background(), &redis.XAddArgs{Stream: key, Values: []string{"x", "x"}})
	},
}

// Whatever one session's keys hold, the lists of all sessions have the others, and the jobs of workers do
// for them what they do when none is broken.
func TestBrokenSession(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	twoSessions(b)
	pristine := snapshot(b)
	whole := lists(b, "no session is broken")
	restore(b, pristine)
	worked := jobs(b)
	keys := append(keysOf(b, bad), protocol.Keys(bad, "t", time.Now())...)
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		for how, spoil := range breaks {
			what := fmt.Sprintf("%s is %s", strings.TrimPrefix(key, "turnstile:"), how)
			restore(b, pristine)
			_, err := b.Redis.TxPipelined(b.Ctx, func(p redis.Pipeliner) error {
				p.Del(b.Ctx, key)
				spoil(p, key)
				return nil
			})
			expect.OK(t, err)
			expect.List(t, what+": lists", lists(b, what), whole...)
			expect.List(t, what+": jobs", jobs(b), worked...)
			if t.Failed() {
				return
			}
		}
	}
}

// twoSessions gives actors.Key, and then bad, one of everything.
func twoSessions(b *actors.Bench) {
	b.Helper()
	chat := b.Chat()
	send := func(id, to string, options ...actors.Option) {
		_, err := chat.Send(b.Ctx, actors.With(turnstile.Message{ID: id, Text: id, ReplyTo: to, Meta: map[string]string{"sender": alice}}, options...))
		expect.OK(b, err)
	}
	send("done", "one")
	b.Drain()
	send("failed", "two")
	h := b.Start()
	_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no"})
	expect.OK(b, err)
	known := []deliveries.Line{{Destination: "two", MaxAge: time.Hour}}
	taken, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, known, time.Minute)
	expect.OK(b, err)
	_, _, err = deliveries.Ack{Delivery: taken.Deliveries[0], Verdict: deliveries.GiveUp, Why: "HTTP status 422"}.Do(b.Ctx, b.Redis)
	expect.OK(b, err)
	send("running", "")
	h = b.Start()
	expect.OK(b, h.StoreState(b.Ctx, []byte(`{"id":"x"}`), 0))
	expect.OK(b, h.Emit(b.Ctx, []session.Event{{Type: session.EventText, Text: "so far"}}))
	send("later", "", actors.Delay(time.Hour))
	send("waits", "")
	b.Die() // reap finds both
	for _, key := range keysOf(b, actors.Key) {
		expect.OK(b, b.Redis.Restore(b.Ctx, strings.ReplaceAll(key, actors.Key, bad), 0, b.Redis.Dump(b.Ctx, key).Val()).Err())
	}
	for _, index := range []string{rediskey.Sessions, rediskey.Names, rediskey.Owned, rediskey.Attention} {
		b.Redis.ZAdd(b.Ctx, index, redis.Z{Score: 1, Member: actors.Key}, redis.Z{Score: 1, Member: bad})
	}
	b.Redis.SAdd(b.Ctx, rediskey.AllQueues, rediskey.Queue(actors.Key), rediskey.Queue(bad))
}

// lists are what each list has of actors.Key.
func lists(b *actors.Bench, when string) (lines []string) {
	b.Helper()
	client := admin.NewClient(b.Redis)
	passes := func(what string, err error) bool {
		if err != nil && !errors.Is(err, session.ErrBroken) {
			b.Errorf("%s: %s: %v", when, what, err)
		}
		return err == nil
	}
	for _, state := range []admin.State{"", admin.StateBusy, admin.StateAttention, admin.StateDeadLetters, admin.StateUndelivered} {
		for s, err := range client.Sessions(b.Ctx, admin.Query{State: state}) {
			if passes(fmt.Sprintf("sessions in state %q", state), err) && s.Session == actors.Key {
				lines = append(lines, fmt.Sprintf("%q: %s, %d dead", state, s.State, s.DeadLetters))
			}
		}
		page, err := client.Page(b.Ctx, admin.Query{State: state})
		passes(fmt.Sprintf("the page of state %q", state), err)
		for _, s := range page.Sessions {
			if s.Session == actors.Key {
				lines = append(lines, fmt.Sprintf("page of %q: %s", state, s.State))
			}
		}
	}
	for _, key := range []string{bad, actors.Key} {
		s := client.Session(key)
		_, err := s.Info(b.Ctx)
		passes("the state of "+key, err)
		for d, err := range s.DeadLetters(b.Ctx) {
			if passes("dead letters", err) && key == actors.Key {
				lines = append(lines, "dead "+d.ID)
			}
		}
		for d, err := range s.Deliveries(b.Ctx) {
			if passes("deliveries", err) && key == actors.Key {
				lines = append(lines, "delivery "+d.ID)
			}
		}
	}
	for s, err := range client.SessionsOf(b.Ctx, alice) {
		if passes("sessions of a sender", err) && s.Session == actors.Key {
			lines = append(lines, fmt.Sprint("alice's ", len(texts(b, s))))
		}
	}
	_, err := client.Backlog(b.Ctx)
	passes("the backlog", err)
	_, err = client.Scale(b.Ctx)
	passes("the scale", err)
	return lines
}

// jobs runs the jobs of a worker, and returns the dead letters that they have counted, and what has become of
// actors.Key. A job may complain about the broken session.
func jobs(b *actors.Bench) (lines []string) {
	b.Helper()
	b.MakeOld()
	_, _, _ = b.Worker.Sweep(b.Ctx, time.Minute)
	_, _, _ = b.Worker.Reap(b.Ctx)
	_, _ = b.Worker.Due(b.Ctx)
	for _, job := range []func(context.Context) (int, error){b.Worker.Purge, b.Worker.Unregister, b.Worker.Trim, b.Worker.Forget, b.Worker.Find} {
		_, _ = job(b.Ctx)
	}
	counted := b.Redis.HGet(b.Ctx, rediskey.Waiting, "dead").Val()
	lines = append(lines, "dead letters are counted: "+fmt.Sprint(counted == "1" || counted == "2")) // the broken one's may be missing
	for _, index := range []string{rediskey.Sessions, rediskey.Names, rediskey.Ready, rediskey.Owned, rediskey.Due, rediskey.Attention, rediskey.Outbox} {
		lines = append(lines, fmt.Sprint(index, " ", b.IsIn(index, actors.Key)))
	}
	return append(lines, keysOf(b, actors.Key)...)
}

// keysOf are the keys of a session.
func keysOf(b *actors.Bench, session string) []string {
	b.Helper()
	keys, err := b.Redis.Keys(b.Ctx, "*{"+rediskey.Queue(session)+"}*").Result()
	expect.OK(b, err)
	slices.Sort(keys)
	return keys
}

// dumped is a key as DUMP returns it.
type dumped struct {
	key, text string
	ttl       time.Duration
}

func snapshot(b *actors.Bench) (all []dumped) {
	b.Helper()
	for _, key := range b.Redis.Keys(b.Ctx, "*").Val() {
		all = append(all, dumped{key, b.Redis.Dump(b.Ctx, key).Val(), max(b.Redis.PTTL(b.Ctx, key).Val(), 0)})
	}
	return all
}

func restore(b *actors.Bench, all []dumped) {
	b.Helper()
	_, err := b.Redis.Pipelined(b.Ctx, func(p redis.Pipeliner) error {
		p.FlushDB(b.Ctx)
		for _, d := range all {
			p.Restore(b.Ctx, d.key, d.ttl, d.text)
		}
		return nil
	})
	expect.OK(b, err)
}
