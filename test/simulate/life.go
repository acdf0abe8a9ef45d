package simulate

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"turnstile/test/checker"
	"turnstile/test/harvest"
	"turnstile/test/history"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
)

const (
	workers = 2

	// eventful is how long there are messages and faults.
	eventful = 45 * time.Second

	// quiet is how long everything may take to end after the last failure: sentinels, sweeps, the
	// longest pause of a delivery, and long queues.
	quiet = 10 * time.Minute
)

// life is one simulated life.
type life struct {
	seed       uint64
	rng        *random
	ctx        context.Context // ends with the life
	log        *history.Log
	server     *server
	receiver   *receiver
	slots      []*slot
	chats      []*chat
	background sync.WaitGroup // killed processes
	healing    sync.WaitGroup // faults that last
	enabled    chan struct{}  // closed when the operator has enabled the destination for good
	isCalm     atomic.Bool    // nothing fails any more
	mu         sync.Mutex
	running    map[string]int // by session: the agents that run

	client   *turnstile.Client // of senders and programs
	programs sync.WaitGroup
	secrets  map[string]string // of waits, by session and message

	stuckLimit int // of the workers
}

// Summary is the result of a life.
type Summary struct {
	Seed      uint64
	Print     uint64 // of the history: two lives with the same print are equal
	Simulated time.Duration
	Report    checker.Report
	History   string
}

// Run lives the life of a seed. Call each Run in another bubble, with fixed random bytes.
func Run(seed uint64) Summary { return run(seed, 3, (*life).makeFaults) }

// RunUnsteady lives a life with one kind of fault: Redis stops repeatedly for longer than a
// sentinel lives. The first worker's death would give up a message, but no worker dies.
func RunUnsteady(seed uint64) Summary { return run(seed, 1, (*life).stopRedis) }

func run(seed uint64, stuckLimit int, faults func(*life, context.Context)) Summary {
	began := time.Now()
	ctx, end := context.WithCancel(context.Background())
	defer end()
	l := &life{seed: seed, rng: newRandom(seed, "faults"), ctx: ctx, log: &history.Log{}, running: map[string]int{}, secrets: map[string]string{}, stuckLimit: stuckLimit, enabled: make(chan struct{})}
	var err error
	if l.server, err = startServer(seed); err != nil {
		panic(err)
	}
	if l.receiver, err = newReceiver(l); err != nil {
		panic(err)
	}
	l.applyTenants(`{"tenants": {"plain": {"sessions": ["plain:*"], "running": 1}, "*": {"weight": 2}}}`)
	var running sync.WaitGroup // until the end
	running.Go(func() { _ = l.receiver.server.Serve(l.receiver) })
	for i := range workers {
		s := newSlot(l, fmt.Sprint("worker", i+1))
		l.slots = append(l.slots, s)
		running.Go(func() { l.keep(s) })
	}
	rdb := open(l.server.link("senders"))
	l.client = turnstile.NewClient(rdb)
	for i, kind := range []string{history.Plain, history.Plain, history.Commands} {
		key := fmt.Sprint(kind, ":chat", i+1)
		l.chats = append(l.chats, &chat{life: l, key: key, wild: kind == history.Commands, rng: newRandom(seed, key), client: l.client})
	}
	following, unfollow := context.WithCancel(ctx)
	defer unfollow()
	running.Go(func() { l.chats[0].follow(following) })
	running.Go(l.collect)
	running.Go(func() { l.operate(rdb) })

	l.events(rdb, faults)
	sleep(ctx, 5*time.Second) // the follower reads the last events
	unfollow()
	l.read(rdb)
	records := l.log.Records()
	summary := Summary{Seed: seed, Simulated: time.Since(began), Report: checker.Check(records, l.limits()), History: history.Print(records)}
	sum := sha256.Sum256([]byte(summary.History))
	summary.Print = binary.BigEndian.Uint64(sum[:])

	end()
	_ = l.receiver.server.Close()
	running.Wait()
	l.healing.Wait()
	l.programs.Wait()
	l.background.Wait()
	_ = rdb.Close()
	l.server.redis.Close()
	time.Sleep(time.Minute) // go-redis' goroutines end; one that did not would be a deadlock of the bubble
	return summary
}

// applyTenants gives every third life a table of tenants.
func (l *life) applyTenants(table string) {
	if l.seed%3 > 0 {
		return
	}
	rdb := open(l.server.link("tenants"))
	defer func() { _ = rdb.Close() }()
	if err := admin.NewClient(rdb).ApplyTenants(l.ctx, []byte(table)); err != nil {
		panic(err)
	}
}

// holding returns what is still counted for a limit.
func holding(ctx context.Context, rdb redis.UniversalClient) string {
	counts, err := rdb.HGetAll(ctx, rediskey.Running).Result()
	if err != nil || len(counts) > 0 {
		return fmt.Sprintf("limits are still held: %v %v", counts, err)
	}
	return ""
}

// events sends messages and makes faults. It returns at the end of everything, or when that is
// overdue.
func (l *life) events(rdb redis.UniversalClient, makeFaults func(*life, context.Context)) {
	ctx, over := context.WithTimeout(l.ctx, eventful)
	defer over()
	ended := make(chan struct{})
	var chats sync.WaitGroup
	for _, c := range l.chats {
		chats.Go(func() { c.run(ctx) })
	}
	go func() {
		chats.Wait()
		close(ended)
	}()
	makeFaults(l, ctx)
	l.receiver.fair.Store(true)
	l.log.Add(history.Record{Kind: history.Healed})
	status := l.settles(rdb, ended)
	if status == "ok" {
		calm := make(chan struct{})
		go func() {
			l.calm()
			close(calm)
		}()
		status = l.settles(rdb, calm)
	}
	l.log.Add(history.Record{Kind: history.Drained, Status: status})
}

// settles waits until the chats end and no message is left. It returns "ok", or after a timeout the
// rest.
func (l *life) settles(rdb redis.UniversalClient, ended <-chan struct{}) string {
	late := time.After(quiet)
	select {
	case <-ended:
	case <-late:
		return fmt.Sprintf("after %v: messages have not ended", quiet)
	}
	h := harvest.New(rdb, l.log)
	for {
		left := h.Left(l.ctx, func(string) bool { return false })
		if left == nil && l.receiver.hasAll() && holding(l.ctx, rdb) == "" {
			return "ok"
		}
		select {
		case <-time.After(time.Second):
		case <-late:
			return fmt.Sprintf("after %v: deliveries are missing, or %v", quiet, left)
		}
	}
}

// read records the stored data at the end.
func (l *life) read(rdb redis.UniversalClient) {
	var sessions []string
	for _, c := range l.chats {
		sessions = append(sessions, c.key)
	}
	h := harvest.New(rdb, l.log)
	if err := errors.Join(h.All(l.ctx, l.log.Records(), sessions), h.Erased(l.ctx, sessions)); err != nil {
		l.log.Add(history.Record{Kind: history.Left, Name: "history", Error: err.Error()})
	}
}

// limits are the settings of lives, for the checker.
func (l *life) limits() checker.Limits {
	return checker.Limits{TTL: 15 * time.Second, Drain: drain, StuckLimit: l.stuckLimit, Gaps: true}
}

// collect collects garbage while everybody waits. When the lives must repeat there is no other collection,
// because a concurrent one changes the order of goroutines.
func (l *life) collect() {
	for l.ctx.Err() == nil {
		sleep(l.ctx, 3*time.Second+time.Nanosecond)
		runtime.GC()
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
