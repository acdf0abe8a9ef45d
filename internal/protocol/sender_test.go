package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
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

// A repeated request has the first one's result and changes nothing, whatever happened in between:
// the turn ended, the queue was stopped, others made the same request, or a new transcript began.
func TestRepeatedRequestsHaveTheFirstResult(t *testing.T) {
	t.Parallel()
	kept := []string{"stop/", "undo/", "undo/to try again", "rerun/"}
	seen := map[string]bool{}
	for _, s := range situations() {
		name := s.script + "/" + s.name
		if !slices.Contains(kept, name) {
			continue
		}
		seen[name] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			move := s.prepare(b)
			r := &repeated{b: b, script: s.script, between: func() { goOn(b) }}
			b.Redis.AddHook(actors.Hook(r.around))
			expect.OK(t, move())
			if r.first == "" {
				t.Fatalf("%s was not called", s.script)
			}
			expect.Equal(t, "the second result", r.second, r.first)
			actors.Same(t, "a repetition of "+name, r.before, r.after)
		})
	}
	expect.Equal(t, "situations", len(seen), len(kept))
}

// goOn lets others use the session: its turn ends, and the waiting messages are run, stopped and
// refused, requeued and rerun, in one transcript and the next.
func goOn(b *actors.Bench) {
	b.Helper()
	other := *b
	other.Redis = b.BareRedis()
	other.Client = actors.NewClient(other.Redis)
	other.Worker = actors.NewWorker(b.T, other.Redis, "other")
	other.Die()
	other.Drain()
	other.SayAll("x1", "x2", "x3")
	h := other.Start()
	other.Say("x4", session.ModeReject)
	_, err := other.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(b, err)
	for more := true; more; {
		more = other.Finish(h)
	}
	_, err = other.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
	expect.OK(b, err)
	other.Drain()
	_, err = other.Client.Session(actors.Key).Undo(b.Ctx)
	expect.OK(b, err)
	_, err = other.Client.Session(actors.Key).NewTranscript(b.Ctx)
	expect.OK(b, err)
	other.Say("x5")
	other.Drain()
}

// repeated sends a script's first call twice, with other calls in between.
type repeated struct {
	b       *actors.Bench
	script  string
	between func()

	first, second string // results
	before, after string // the database around the second call
}

func (r *repeated) around(cmds []redis.Cmder, send func() error) error {
	err := send()
	if err != nil || r.first != "" || !actors.Script(r.script)(cmds[0]) {
		return err
	}
	r.first = answered(cmds[0])
	r.between()
	r.before = r.b.Dump()
	err = send()
	r.after, r.second = r.b.Dump(), answered(cmds[0])
	return err
}

var clockMS = regexp.MustCompile(`\b1\d{12}\b`)

// answered returns a script's result without times.
func answered(cmd redis.Cmder) string {
	answer, err := cmd.(redistest.Reply).Result()
	return fmt.Sprint(clockMS.ReplaceAllString(fmt.Sprint(answer), "ms"), " ", err)
}
