// Package traffic has the users of a world: senders at every entrance, receivers at every exit,
// operators. They write each response to the history.
package traffic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/chaos/internal/agents"
	"turnstile/chaos/internal/world"
	"turnstile/pkg/session"
	"turnstile/test/history"
)

// Traffic sends and receives until it is stopped.
type Traffic struct {
	world     *world.World
	log       *history.Log
	rdb       redis.UniversalClient
	client    *turnstile.Client
	plain     *asynq.Client
	inspector *asynq.Inspector
	http      *http.Client

	rate     float64              // users who begin to write, a second
	work     int                  // how many times longer than usual agents work
	patience time.Duration        // of a sender
	longest  time.Duration        // that a receiver waits for an outcome
	begun    func(session string) // a followed session has begun

	sent     atomic.Int64
	accepted atomic.Int64
	group    sync.WaitGroup

	n   int             // messages so far
	hot map[string]*hot // by kind and place

	mu       sync.Mutex
	sessions map[string]int      // messages of each
	open     map[string][]string // of operators' sessions: ids that may still wait
}

// New makes the users of a world. They wait for an outcome at most for longest. begun is called with each
// session to follow, before its first message is sent.
func New(w *world.World, log *history.Log, rate float64, work int, longest time.Duration, begun func(session string)) *Traffic {
	rdb, senders := w.Client(world.Admin), w.Client(world.Sender)
	return &Traffic{
		world: w, log: log, rdb: rdb, client: turnstile.NewClient(senders),
		plain: asynq.NewClientFromRedisClient(senders), inspector: asynq.NewInspectorFromRedisClient(rdb),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
		rate: rate, work: work, patience: 30 * time.Second, longest: longest, begun: begun,
		hot: map[string]*hot{}, sessions: map[string]int{}, open: map[string][]string{},
	}
}

// Sent is how many messages were sent, and accepted.
func (t *Traffic) Sent() (sent, accepted int64) { return t.sent.Load(), t.accepted.Load() }

// Sessions are all sessions that got a message or a command.
func (t *Traffic) Sessions() (keys []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.sessions {
		keys = append(keys, key)
	}
	return keys
}

// Run sends until ctx ends, and returns when all senders have a response or have given up. Its
// choices come from the seed.
func (t *Traffic) Run(ctx context.Context, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	pause := time.Duration(float64(time.Second) / t.rate)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	// Senders that wait for a response. The bound keeps a stopped Redis from collecting thousands
	// of them, and keeps the queue so short that delays show the faults.
	busy := make(chan struct{}, 100)
	for {
		select {
		case <-ctx.Done():
			t.group.Wait()
			return
		case <-tick.C:
		}
		select {
		case busy <- struct{}{}:
		default:
			continue // users who wait for replies write less
		}
		job := t.choose(rng)
		t.group.Add(1)
		go func() {
			defer t.group.Done()
			defer func() { <-busy }()
			job()
		}()
	}
}

// choose makes the next user's action: a message, a burst of them, a command or an operator's call.
// Every choice is made here, so that the seed alone decides them.
func (t *Traffic) choose(rng *rand.Rand) func() {
	switch x := rng.IntN(100); {
	case x < 3:
		return t.command(rng, t.hotSession(rng, history.Commands))
	case x < 6:
		return t.operate(rng, t.hotSession(rng, history.Operators))
	case x < 40:
		return t.burst(rng)
	}
	kind := [...]string{history.Plain, history.Plain, history.Plain, history.Modes, history.Modes, history.Commands, history.Operators, history.OpenAI}[rng.IntN(8)]
	m := t.message(rng, t.session(rng, kind))
	switch kind {
	case history.Modes, history.Commands:
		m.mode = [...]session.Mode{
			session.ModeQueue, session.ModeCollect, session.ModeCollect, session.ModeSteer, session.ModeSteer,
			session.ModeInterrupt, session.ModeRollback, session.ModeReject,
		}[rng.IntN(8)]
		if kind == history.Commands {
			if rng.IntN(3) == 0 {
				m.mode = "" // the mode of the session's /queue
			}
			if m.plan.End == history.EndOK && rng.IntN(20) == 0 {
				m.plan.End = history.EndAsk
			}
		}
	case history.OpenAI:
		m.via, m.plan.Tools = [...]string{viaOpenAI, viaChat}[rng.IntN(2)], 0
	}
	if m.via != viaAsynq && kind != history.OpenAI && rng.IntN(4) == 0 {
		m.route = world.Destination
	}
	if kind != history.OpenAI && rng.IntN(20) == 0 {
		m.delay = time.Duration(1+rng.IntN(3)) * time.Second
	}
	if m.via == viaAsynq {
		m.mode = session.ModeQueue // a plain client's message waits in the queue, whatever its mode
	}
	return func() { t.run(m) }
}

// burst is one user's many short messages. Each is sent after the one before was accepted, and then
// the user waits for all.
func (t *Traffic) burst(rng *rand.Rand) func() {
	key := t.session(rng, history.Bursts)
	via := [...]string{viaClient, viaClient, viaHTTP}[rng.IntN(3)]
	all := make([]message, 5+rng.IntN(20))
	for i := range all {
		m := t.message(rng, key)
		m.mode, m.via = session.ModeCollect, via
		m.plan.Work, m.plan.Tools = time.Duration(rng.IntN(12))*time.Millisecond, rng.IntN(20)/19
		if rng.IntN(8) > 0 {
			m.plan.End = history.EndOK // one bad message fails the turn of all
		}
		if rng.IntN(12) == 0 {
			m.route = world.Destination
		}
		m.wait = rng.IntN(20)
		all[i] = m
	}
	return func() {
		var waits sync.WaitGroup
		for _, m := range all {
			if t.send(m) {
				waits.Go(func() { t.await(m) })
			}
		}
		waits.Wait()
	}
}

// message is an ordinary message to a session.
func (t *Traffic) message(rng *rand.Rand, key string) message {
	t.n++
	m := message{session: key, id: fmt.Sprintf("m%d", t.n), mode: session.ModeQueue}
	m.plan = agents.Plan{Session: key, ID: m.id, Work: work(rng) * time.Duration(t.work), Tools: rng.IntN(3), End: history.EndOK}
	switch x := rng.IntN(100); {
	case x < 3:
		m.plan.End = history.EndRetry
	case x < 5:
		m.plan.End = history.EndFail
	case x < 6:
		m.plan.End = history.EndDie
	case x == 6 && rng.IntN(6) == 0:
		m.plan.End = history.EndPoison
	}
	m.via = [...]string{viaClient, viaClient, viaHTTP, viaHTTP, viaAsynq, viaEnqueue}[rng.IntN(6)]
	m.again, m.other = rng.IntN(20) == 0, rng.IntN(50) == 0 && m.via != viaAsynq
	m.wait = rng.IntN(4)
	t.mu.Lock()
	t.sessions[key]++
	t.mu.Unlock()
	return m
}

// work is how long an agent takes: mostly short, seldom longer than a lease.
func work(rng *rand.Rand) time.Duration {
	switch x := rng.IntN(100); {
	case x < 70:
		return time.Duration(rng.IntN(60)) * time.Millisecond
	case x < 98:
		return time.Duration(60+rng.IntN(440)) * time.Millisecond
	default:
		return time.Duration(1+rng.IntN(4)) * time.Second
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
