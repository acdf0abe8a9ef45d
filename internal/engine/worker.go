package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/maintenance"
	"turnstile/internal/protocol"
	"turnstile/internal/recovery"
	"turnstile/pkg/agent"
)

// Worker runs turns until it is drained. It is started once.
type Worker struct {
	opts     Options
	agent    agent.Agent
	queue    *protocol.Consumer
	recovery *recovery.Recovery
	upkeep   *maintenance.Maintenance
	rdb      redis.UniversalClient
	log      *slog.Logger

	// ctx is that of everything this worker does; it ends after the last turn.
	ctx    context.Context
	cancel context.CancelFunc
	loops  sync.WaitGroup // dispatch, keeper, signals, timers
	served sync.WaitGroup // sessions

	begun    chan struct{}  // closed: Start is over
	draining chan struct{}  // closed: claim nothing more
	popping  chan struct{}  // closed: dispatch has ended
	claiming sync.WaitGroup // claims under way
	slots    chan struct{}  // a token for each session that is served
	others   waiters
	open     *openQuestions

	unannounced *unannounced

	dispatching, keeping pulse // see Healthy

	mu        sync.Mutex
	started   bool
	ended     bool // draining has begun
	sessions  map[*served]struct{}
	drain     drain
	recovered Recovered
	left      chan struct{} // during a drain: a session has ended

	maintenance *jobServer
	steerable   bool        // the agent takes messages into a running turn
	warm        *warmAgents // nil: the agent keeps nothing
}

// New checks the options; it does not connect.
func New(rdb redis.UniversalClient, a agent.Agent, opts Options) (*Worker, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	if i, ok := a.(agent.Immediate); ok {
		opts.Queue.Immediate = i.Immediate()
	}
	if _, ok := a.(agent.Warmer); ok {
		opts.Queue.Warm = opts.WarmAgents > 0
	}
	queue, err := protocol.NewConsumer(rdb, opts.Queue)
	if err != nil {
		return nil, err
	}
	w := &Worker{
		opts: opts, agent: a, queue: queue, recovery: recovery.New(rdb, queue), upkeep: maintenance.New(rdb, queue), rdb: rdb, log: opts.Logger,
		begun: make(chan struct{}), draining: make(chan struct{}), popping: make(chan struct{}),
		slots:    make(chan struct{}, opts.Concurrency),
		sessions: map[*served]struct{}{}, left: make(chan struct{}, 1),
	}
	w.others.ask = queue.OthersWait
	w.unannounced = newUnannounced()
	w.open = &openQuestions{slots: opts.Concurrency, log: w.log}
	if s, ok := a.(agent.Steerable); ok {
		w.steerable = s.Steerable()
	}
	w.warm = newWarmAgents(a, opts)
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w, nil
}

// ID names the worker, as in `worker ps`.
func (w *Worker) ID() string { return w.opts.ID }

// Start begins to claim sessions, and to look for work that nobody announced. It
// returns once the worker listens for signals. ctx bounds Start only.
// After an error there is still a Drain to be called.
func (w *Worker) Start(ctx context.Context) (err error) {
	w.mu.Lock()
	if w.started || w.ended {
		w.mu.Unlock()
		return errors.New("worker: started or drained before")
	}
	w.started = true
	w.mu.Unlock()
	defer close(w.begun)
	defer func() {
		if err != nil {
			close(w.popping) // which a drain waits for
		}
	}()

	if w.opts.Maintenance {
		m, err := w.startMaintenance()
		if err != nil {
			return err
		}
		w.maintenance = m
	}
	listening := make(chan struct{})
	w.loop(func() { w.listen(func() { close(listening) }) })
	select {
	case <-listening:
	case <-w.draining:
		return errors.New("worker: drained before it had started")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	w.loop(w.keep)
	w.loop(func() { w.every(dutyDue, w.due) })
	w.loop(func() { w.every(dutyReap, w.reap) })
	w.loop(func() { w.every(dutySweep, w.sweep) })
	w.loop(w.announce)
	w.loop(w.dispatch)
	w.log.Info("worker started", "concurrency", w.opts.Concurrency)
	return nil
}

func (w *Worker) loop(f func()) {
	w.loops.Add(1)
	go func() {
		defer w.loops.Done()
		f()
	}()
}

// Draining reports whether the worker has been told to end.
func (w *Worker) Draining() bool {
	select {
	case <-w.draining:
		return true
	default:
		return false
	}
}

// Slots is how many turns the worker runs at most at the same time.
func (w *Worker) Slots() int { return w.opts.Concurrency }

// Running counts the sessions that are served now.
func (w *Worker) Running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sessions)
}
