package simulate

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
)

const (
	workers = 2

	// eventful is how long there are messages and faults.
	eventful = 45 * time.Second

	// quiet is how long everything may take to end when nothing fails any more: sentinels, sweeps, the
	// longest pause of a delivery, and long lines.
	quiet = 10 * time.Minute
)

// life is one simulated life.
type life struct {
	seed       uint64
	rng        *random
	ctx        context.Context // ends with the life
	history    *history
	server     *server
	receiver   *receiver
	slots      []*slot
	chats      []*chat
	background sync.WaitGroup // what ends by itself
	healing    sync.WaitGroup // faults that last
	enabled    chan struct{}  // closed when the operator has enabled the destination for good
	mu         sync.Mutex

	stuckLimit int // of the workers; 0: the default
}

// Summary is what happened in a life.
type Summary struct {
	Seed                   uint64
	Print                  uint64 // of the history: two lives with the same one went the same way
	Simulated              time.Duration
	Faults                 map[string]int
	Messages, Turns, Posts int
	Reruns                 int // turns whose first message had begun to run before
	Findings               []string
	History                string
}

// Run lives the life of a seed. Call it in a bubble of its own, with fixed random bytes.
func Run(seed uint64) Summary { return run(seed, 0, (*life).makeFaults) }

// RunUnsteady lives a life in which nothing happens but that Redis stops again and again for longer
// than a sentinel lives. The first worker's death would give a message up, and no worker dies.
func RunUnsteady(seed uint64) Summary { return run(seed, 1, (*life).stopRedis) }

func run(seed uint64, stuckLimit int, faults func(*life, context.Context)) Summary {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	l := &life{seed: seed, rng: newRandom(seed, "faults"), ctx: ctx, history: newHistory(), stuckLimit: stuckLimit, enabled: make(chan struct{})}
	var err error
	if l.server, err = startServer(seed); err != nil {
		panic(err)
	}
	if l.receiver, err = newReceiver(l); err != nil {
		panic(err)
	}
	var running sync.WaitGroup // until the end
	running.Go(func() { _ = l.receiver.server.Serve(l.receiver) })
	for i := range workers {
		s := newSlot(l, fmt.Sprint("worker", i+1))
		l.slots = append(l.slots, s)
		running.Go(func() { l.keep(s) })
	}
	rdb := open(l.server.link("senders"))
	client := turnstile.NewClient(rdb)
	for i, wild := range []bool{false, false, true} {
		key := fmt.Sprint("chat", i+1)
		l.chats = append(l.chats, &chat{life: l, key: key, wild: wild, rng: newRandom(seed, key), client: client})
	}
	running.Go(l.chats[0].follow)
	running.Go(l.collect)
	running.Go(func() { l.operate(rdb) })

	l.events(rdb, faults)
	l.check(rdb)
	summary := l.history.summary(seed)

	end()
	_ = l.receiver.server.Close()
	running.Wait()
	l.healing.Wait()
	l.background.Wait()
	_ = rdb.Close()
	l.server.redis.Close()
	time.Sleep(time.Minute) // go-redis' goroutines end; one that did not would be a deadlock of the bubble
	return summary
}

// events sends messages and makes faults. It returns when everything has ended, or should have.
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
	l.history.note("the faults are over")
	if l.settles(rdb, ended) {
		calm := make(chan struct{})
		go func() {
			l.calm()
			close(calm)
		}()
		l.settles(rdb, calm)
	}
}

// settles waits until the chats have ended, and nothing is left of their messages. It returns false if
// that takes too long.
func (l *life) settles(rdb redis.UniversalClient, ended <-chan struct{}) bool {
	late := time.After(quiet)
	select {
	case <-ended:
	case <-late:
		l.history.unfinished()
		return false
	}
	for len(l.history.undelivered()) > 0 || len(l.leftovers(rdb)) > 0 {
		select {
		case <-time.After(time.Second):
		case <-late:
			return false
		}
	}
	return true
}

// collect collects garbage while everybody waits. When the lives must repeat there is no other collection,
// because one that runs beside them changes who runs next.
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
