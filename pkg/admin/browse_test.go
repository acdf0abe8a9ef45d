package admin_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// onAll runs a test on one Redis, on a Cluster and on the embedded server.
func onAll(t *testing.T, test func(*actors.Bench)) {
	t.Helper()
	for name, open := range map[string]func(t testing.TB) redis.UniversalClient{
		"one Redis": redistest.New,
		"Cluster": func(t testing.TB) redis.UniversalClient {
			redistest.Real(t)
			return redistest.StartCluster(t).Client()
		},
		"embedded": func(t testing.TB) redis.UniversalClient {
			rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
			t.Cleanup(func() { _ = rdb.Close() })
			return rdb
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(actors.BenchOn(t, open(t)))
		})
	}
}

// sessionsOf returns the keys that a query visits.
func sessionsOf(b *actors.Bench, q admin.Query) (found []string) {
	b.Helper()
	for s, err := range b.Client.Sessions(b.Ctx, q) {
		expect.OK(b, err)
		found = append(found, s.Session)
	}
	return found
}

func browse(b *actors.Bench, pattern string) []string {
	b.Helper()
	return sessionsOf(b, admin.Query{Match: pattern, OldestFirst: true})
}

// Each state is shown, on every kind of Redis.
func TestStates(t *testing.T) {
	t.Parallel()
	onAll(t, func(b *actors.Bench) {
		send := func(key string, opts ...actors.Option) {
			_, err := b.Client.Session(key).Send(b.Ctx, actors.With(turnstile.Message{ID: "m", Text: "x"}, opts...))
			expect.OK(b, err)
		}
		for _, key := range []string{"idle", "running", "starting", "asking", "waiting", "paused", "suspended"} {
			send(key)
		}
		send("delayed", actors.Delay(time.Hour))
		claims, err := b.Worker.Claim(b.Ctx, []string{"idle", "suspended", "running", "starting", "asking"})
		expect.OK(b, err)
		for _, h := range claims {
			if h.Session() != "starting" {
				expect.OK(b, h.Promote(b.Ctx))
			}
			switch h.Session() {
			case "idle", "suspended":
				_, err = h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Reply: "done"})
			case "asking":
				_, err = h.Ask(b.Ctx, session.Question{Name: "deploy"})
			}
			expect.OK(b, err)
		}
		expect.OK(b, b.Redis.HSet(b.Ctx, rediskey.For("suspended").Resume(), "suspended", "1").Err())
		for _, key := range []string{"paused", "running"} {
			expect.OK(b, b.Redis.Set(b.Ctx, rediskey.For(key).Paused(), 1, 0).Err())
		}
		n := 0
		for s, err := range b.Client.Sessions(b.Ctx, admin.Query{OldestFirst: true}) {
			expect.OK(b, err)
			n++
			expect.Equal(b, "state of "+s.Session, string(s.State), s.Session)
			expect.Equal(b, "paused: "+s.Session, s.Paused, s.Session == "paused" || s.Session == "running")
			expect.Equal(b, "suspended: "+s.Session, s.Suspended, s.Session == "suspended")
			if s.LastActive.IsZero() {
				b.Errorf("%s was never active", s.Session)
			}
		}
		expect.Equal(b, "sessions", n, 8)
		expect.List(b, "matching", browse(b, "*a[tr]*ing"), "starting")
		expect.List(b, "matching nothing", browse(b, "start"))
		busy := sessionsOf(b, admin.Query{State: admin.StateBusy})
		slices.Sort(busy)
		expect.List(b, "busy", busy, "asking", "delayed", "paused", "running", "starting", "waiting")
	})
}

// The list has each session in the order of activity, for any number of sessions, of which many
// were active at the same time, also one that is used meanwhile.
func TestBrowseByThePage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Client = actors.NewClient(b.Redis)
	var want []string
	for i := range 1700 {
		want = append(want, fmt.Sprintf("s%04d", i))
	}
	at := func(i int) float64 { return float64(1 + max(0, i-1200)) } // 1,201 at the same time
	members := make([]redis.Z, len(want))
	for i, key := range want {
		members[i] = redis.Z{Score: at(i), Member: key}
	}
	expect.OK(t, b.Redis.ZAdd(b.Ctx, rediskey.Sessions, members...).Err())
	expect.OK(t, b.Redis.ZAdd(b.Ctx, rediskey.Sessions, redis.Z{Score: 3, Member: "no session's\nname"}).Err())
	_, err := asynq.NewClientFromRedisClient(b.Redis).Enqueue(asynq.NewTask(wire.TaskType, []byte(`{"v":1,"text":"x"}`)), asynq.Queue(rediskey.Queue("plain")))
	expect.OK(t, err)
	got := browse(b, "")
	expect.List(t, "the list", got, append(want, "plain")...)

	seen := map[string]int{}
	for s, err := range b.Client.Sessions(b.Ctx, admin.Query{OldestFirst: true}) {
		expect.OK(t, err)
		if len(seen) == 0 { // two sessions, one listed already and one not, move to the end
			expect.OK(t, b.Redis.ZAdd(b.Ctx, rediskey.Sessions, redis.Z{Score: 9000, Member: want[0]}, redis.Z{Score: 9001, Member: want[1650]}).Err())
		}
		seen[s.Session]++
	}
	expect.Equal(t, "sessions", len(seen), 1701)
	expect.Equal(t, "the one that was listed and used", seen[want[0]], 2)
	expect.Equal(t, "the one that was used before", seen[want[1650]], 1)

	for s, err := range b.Client.Sessions(b.Ctx, admin.Query{OldestFirst: true}) {
		expect.OK(t, err)
		expect.Equal(t, "the first", s.Session, want[1])
		break
	}
}

func TestRunningTurn(t *testing.T) {
	t.Parallel()
	onAll(t, func(b *actors.Bench) {
		b.Say("first")
		h := b.Start()
		expect.OK(b, h.Emit(b.Ctx, []session.Event{{Type: session.EventText, Turn: h.Turn().ID, Text: "of the turn before"}}))
		b.Finish(h)
		_, err := b.Client.Session(actors.Key).Send(b.Ctx, turnstile.Message{ID: "m", Text: "the text"})
		expect.OK(b, err)
		h = b.Start()
		for range 300 { // more than a page
			expect.OK(b, h.Emit(b.Ctx, []session.Event{{Type: session.EventText, Turn: h.Turn().ID, Text: "."}}))
		}
		for _, e := range []session.Event{{Type: session.EventToolStart, Name: "grep", CallID: "1"}, {Type: session.EventText, Text: "so "}, {Type: session.EventText, Text: "far"}} {
			e.Turn = h.Turn().ID
			expect.OK(b, h.Emit(b.Ctx, []session.Event{e}))
		}
		turn, err := b.Client.Operate(actors.Key).Turn(b.Ctx)
		expect.OK(b, err)
		expect.Equal(b, "messages", len(turn.Messages), 1)
		expect.Equal(b, "message", turn.Messages[0].ID+" "+turn.Messages[0].Text, "m the text")
		expect.Equal(b, "reply so far", turn.Reply, "so far")
		texts := 0
		for _, e := range turn.Events {
			if e.Turn != h.Turn().ID {
				b.Errorf("of another turn: %+v", e)
			}
			texts += len(e.Text)
		}
		expect.Equal(b, "text", texts, 306)
		expect.Equal(b, "the last event", turn.Events[len(turn.Events)-1].Text, "far")
		b.Finish(h)
		turn, err = b.Client.Operate(actors.Key).Turn(b.Ctx)
		expect.OK(b, err)
		expect.Equal(b, "messages of no turn", len(turn.Messages)+len(turn.Events), 0)

		b.Say("next")
		for m, err := range b.Client.Operate(actors.Key).Queue(b.Ctx) {
			expect.OK(b, err)
			expect.Equal(b, "next message", m.ID, "next")
		}
		for m, err := range b.Client.Operate("unknown").Queue(b.Ctx) {
			b.Errorf("next message of nothing: %+v, %v", m, err)
		}
	})
}

func TestLastDeadLetters(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for _, id := range []string{"a", "b", "c"} {
		b.Say(id)
		_, err := b.Start().Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "why " + id})
		expect.OK(t, err)
	}
	client := actors.NewClient(b.Redis)
	list, err := client.Operate(actors.Key).LastDeadLetters(b.Ctx, 2)
	expect.OK(t, err)
	var got []string
	for _, d := range list {
		got = append(got, d.ID+" "+string(d.Outcome.Status)+" "+d.Outcome.Error)
		actors.Recent(t, "archived", d.At)
	}
	slices.Sort(got) // of one second
	expect.List(t, "the last two", got, "b failed why b", "c failed why c")
	list, err = client.Operate("unknown").LastDeadLetters(b.Ctx, 2)
	expect.OK(t, err)
	expect.Equal(t, "of an unknown session", len(list), 0)
}

// No worker: no heartbeat, and no timer for a second and a half. A worker without maintenance has
// timers only.
func TestHasWorker(t *testing.T) {
	t.Parallel()
	onAll(t, func(b *actors.Bench) {
		if has, err := b.Client.HasWorker(b.Ctx); has || err != nil {
			b.Error("there is one")
		}
		ctx, cancel := context.WithCancel(b.Ctx)
		defer cancel()
		if cancel(); hasNone(ctx, b) {
			b.Error("not known, and said")
		}
		ctx, stop := context.WithCancel(b.Ctx)
		defer stop()
		beats := make(chan struct{})
		go func() { // as an idle worker does
			defer close(beats)
			for ctx.Err() == nil {
				pause, err := b.Worker.Due(ctx)
				if err != nil && ctx.Err() == nil {
					b.Error(err)
				}
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		}()
		for range 3 {
			if hasNone(b.Ctx, b) {
				b.Error("there is none")
			}
		}
		stop()
		<-beats
		list, err := b.Client.Workers(b.Ctx)
		expect.OK(b, err)
		if len(list) > 1 || len(list) == 1 && list[0].Name != b.Name()+"/one" {
			b.Errorf("%+v", list)
		}
	})
}

// hasNone reports whether it is known that no worker runs.
func hasNone(ctx context.Context, b *actors.Bench) bool {
	has, err := b.Client.HasWorker(ctx)
	return !has && err == nil
}
