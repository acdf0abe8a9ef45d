package worker

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

// Worker runs turns until it is drained. It can be started once. It connects the parts that
// doc.go names, and has their one lifecycle.
type Worker struct {
	opts  Options
	queue *protocol.Consumer
	rdb   redis.UniversalClient
	log   *slog.Logger
	life  *lifecycle

	dispatcher *dispatcher
	roster     *roster
	renewer    *renewer
	listener   *listener
	timers     *timers
	wakeUps    *lostWakeUps
	tokens     *usedTokens
	pool       *warmPool // nil: agents are not kept warm
	recovery   *recovery.Recovery
	upkeep     *maintenance.Maintenance
	jobs       *jobServer // nil without Options.Maintenance, and before Start

	mu    sync.Mutex
	state workerState
	begun chan struct{} // closed when Start returns
}

// workerState is the stage of a worker's life.
type workerState int

const (
	unstarted workerState = iota
	started               // Start was called
	drained               // Drain was called
)

// New checks the options. It does not connect.
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
	log, life := opts.Logger, newLifecycle()
	d := duties{observer: opts.Observer, life: life}
	w := &Worker{
		opts: opts, queue: queue, rdb: rdb, log: log, life: life, begun: make(chan struct{}),
		pool:    newWarmPool(a, opts),
		wakeUps: newLostWakeUps(queue, life, d),
		tokens:  newUsedTokens(rdb, life, log),

		recovery: recovery.New(rdb, queue), upkeep: maintenance.New(rdb, queue),
	}
	w.timers = &timers{recovery: w.recovery, sweepEvery: opts.SweepInterval, life: life, duties: d, log: log}
	deps := &turnDeps{
		opts: opts, agent: a, pool: w.pool, queue: queue, wakeUps: w.wakeUps, tokens: w.tokens,
		share: &share{turns: opts.ShareTurns, time: opts.ShareTime, others: waiters{look: queue.OthersWait}, life: life},
		open:  &openQuestions{slots: opts.Concurrency, log: log},
	}
	if s, ok := a.(agent.Steerable); ok {
		deps.steerable = s.Steerable()
	}
	w.roster = newRoster(deps)
	deps.drainReason = w.roster.drainReason
	w.dispatcher = &dispatcher{
		queue: queue, roster: w.roster, pool: w.pool, life: life, duties: d, log: log, slots: make(slots, opts.Concurrency),
	}
	w.renewer = &renewer{queue: queue, roster: w.roster, life: life, duties: d, log: log}
	w.listener = &listener{queue: queue, roster: w.roster, prefer: w.dispatcher.prefer, life: life, log: log}
	return w, nil
}

// ID returns the worker's name, which `worker ps` shows.
func (w *Worker) ID() string { return w.opts.ID }

// Start begins to claim sessions, and to look for overdue ones and lost wake-ups. It returns once
// the worker listens for signals. ctx bounds only Start. After an error Drain must still be
// called.
func (w *Worker) Start(ctx context.Context) error {
	w.mu.Lock()
	was := w.state
	if was == unstarted {
		w.state = started
	}
	w.mu.Unlock()
	if was != unstarted {
		return errors.New("worker: started or drained before")
	}
	defer close(w.begun)

	if w.opts.Maintenance {
		server := w.upkeep.ServerRedis(w.opts.Concurrency, w.opts.AgentTimeout, w.roster.running)
		j, err := startJobs(w.rdb, server, jobs(w.recovery, w.upkeep), w.opts)
		if err != nil {
			return err
		}
		w.jobs = j
	}
	listening := make(chan struct{})
	w.life.run(func() { w.listener.run(func() { close(listening) }) })
	select {
	case <-listening:
	case <-w.life.intake.Done():
		return errors.New("worker: drained before it had started")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	w.life.run(w.renewer.run)
	w.life.run(w.wakeUps.run)
	w.life.run(w.tokens.run)
	w.timers.start()
	w.dispatcher.start()
	w.log.Info("worker started", "concurrency", w.opts.Concurrency)
	return nil
}

// Draining reports whether the worker drains or has drained.
func (w *Worker) Draining() bool { return w.life.draining() }

// Slots returns how many turns the worker may run at the same time.
func (w *Worker) Slots() int { return w.opts.Concurrency }

// Running returns how many sessions run now. Each takes a slot.
func (w *Worker) Running() int { return w.roster.size() }

// Recovered returns the counts since the worker's start. Messages that were archived because they
// kept killing their worker are not counted.
func (w *Worker) Recovered() Recovered { return w.roster.counted() }
