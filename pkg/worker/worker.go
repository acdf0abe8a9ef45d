package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/agreement"
	"turnstile/internal/protocol/maintenance"
	"turnstile/internal/protocol/recovery"
	"turnstile/internal/protocol/rights"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/agent"
)

// Worker runs turns. It can be started once. It is safe for concurrent use.
type Worker struct {
	opts  Config
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
	jobs       *jobServer    // nil before Start
	longest    time.Duration // that a turn may take
	elsewhere  *elsewhere
	sorting    *sorting

	mu    sync.Mutex
	state workerState
	begun chan struct{} // closed when Start returns
}

// workerState is the stage of a worker's life.
type workerState int

const (
	unstarted workerState = iota
	started               // Start was called
	drained               // Stop was called
)

// New checks the config and does not connect. Two configs panic. The worker shares rdb, which the
// caller closes after Stop. Give rdb's pool Concurrency + 8 connections, and set its
// ContextTimeoutEnabled.
func New(rdb redis.UniversalClient, a agent.Agent, config ...Config) (*Worker, error) {
	var opts Config
	switch len(config) {
	case 0:
	case 1:
		opts = config[0]
	default:
		panic("worker: New takes one Config")
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	all, err := newServed(a, opts)
	if err != nil {
		return nil, err
	}
	log, life := opts.Logger, newLifecycle()
	p := &pauses{Backoff: opts.agentPause, agents: len(all.byName), log: log, by: map[string]pause{}}
	e := &elsewhere{pauses: p, name: opts.Name, all: all.names(), known: all.known(opts.Agents), wanted: all.table != nil, rdb: rdb, life: life, log: log, soon: make(chan struct{}, 1), missing: map[string]bool{}}
	sorts := &sorting{rdb: rdb, pool: all.pool, then: e.want, life: life, log: log}
	queue, err := protocol.NewConsumer(rdb, opts.consumer(all, e, sorts, life))
	if err != nil {
		return nil, err
	}
	d := duties{observer: opts.Observer, life: life}
	w := &Worker{
		opts: opts, queue: queue, rdb: rdb, log: log, life: life, begun: make(chan struct{}), longest: all.longest(), elsewhere: e, sorting: sorts,
		wakeUps: newLostWakeUps(queue, life, d),
		tokens:  newUsedTokens(rdb, life, log, opts.Observer),

		recovery: recovery.New(rdb, queue), upkeep: maintenance.New(rdb, queue),
	}
	if all.warm() {
		w.pool = newWarmPool(opts)
	}
	w.timers = &timers{recovery: w.recovery, sweepEvery: opts.SweepInterval, life: life, duties: d, log: log}
	slots := newSlots(opts.Concurrency, opts.WaitingAgents)
	deps := &turnDeps{
		opts: opts, agents: all, pauses: p, pool: w.pool, queue: queue, wakeUps: w.wakeUps, tokens: w.tokens, elsewhere: e, drains: life.intake.Done(),
		share: &share{turns: opts.shareTurns, time: opts.shareTime, sorted: sorts.since, others: waiters{look: queue.Line}, life: life, slots: slots},
		open:  &openQuestions{slots: opts.Concurrency, log: log}, parked: newParkedCap(rdb, opts.ParkedCap, log),
	}
	w.roster = newRoster(deps)
	deps.drainReason = w.roster.drainReason
	w.dispatcher = &dispatcher{
		queue: queue, roster: w.roster, pool: w.pool, life: life, duties: d, log: log, wakeUps: w.wakeUps, slots: slots, pauses: p,
	}
	minute := rate.Every(time.Minute)
	w.renewer = &renewer{queue: queue, roster: w.roster, life: life, duties: d, log: log, warnings: rate.NewLimiter(minute, 1), losses: rate.NewLimiter(minute, 1)}
	deps.quiet = w.renewer.quiet
	w.listener = &listener{queue: queue, roster: w.roster, prefer: w.dispatcher.prefer, life: life, log: log, cancels: make(chan string, cancelsMost)}
	return w, nil
}

// Name returns Config.Name, or the generated name.
func (w *Worker) Name() string { return w.opts.Name }

// Start checks the Redis server and begins to take sessions. It fails if the server is unreachable,
// older than 7.0 or a replica, if its user has too few rights, or if a worker of a build with other records lives.
// It logs a warning if the server may lose data. When it returns, requests to stop a turn reach the worker. ctx
// bounds only Start. After an error nothing of the worker runs.
func (w *Worker) Start(ctx context.Context) error {
	w.mu.Lock()
	was := w.state
	if was == unstarted {
		w.state = started
	}
	w.mu.Unlock()
	if was != unstarted {
		return errors.New("worker: started or stopped before")
	}
	if err := w.start(ctx); err != nil {
		atOnce, cancel := context.WithCancel(ctx)
		cancel()
		_ = w.Stop(atOnce) // it has no turns
		return err
	}
	w.log.Info("worker started", "concurrency", w.opts.Concurrency)
	return nil
}

func (w *Worker) start(ctx context.Context) error {
	defer close(w.begun)
	w.life.began = time.Now()
	warnings, err := redisconn.Check(ctx, w.rdb)
	if err != nil {
		return err
	}
	if err := rights.Check(ctx, w.rdb, rights.Worker); err != nil {
		return err
	}
	if err := maintenance.CheckLayout(ctx, w.rdb); err != nil {
		return err
	}
	for _, warning := range warnings {
		if !w.opts.Ephemeral { // an ephemeral Redis need not store anything
			w.log.Warn(warning) //nolint:sloglint // a sentence for the operator
		}
	}
	if !w.opts.noJobs {
		server := w.upkeep.ServerRedis(w.opts.Concurrency, w.longest, w.roster.running, w.dispatcher.pauses.unable)
		j, err := startJobs(w.rdb, server, jobs(w.recovery, w.upkeep), w.opts)
		if err != nil {
			return err
		}
		w.jobs = j
	}
	if err := w.sorting.look(ctx); err != nil {
		return err
	}
	w.life.run(w.sorting.run)
	if w.elsewhere.wanted {
		if err := w.elsewhere.look(ctx); err != nil {
			return err
		}
	}
	w.life.run(w.elsewhere.run)
	watch := agreement.Watch{Name: w.opts.Name, Settings: w.agreed, Redis: w.rdb, Logger: w.log}
	w.life.run(func() { watch.Run(w.life.work) })
	listening := make(chan struct{})
	w.life.run(func() { w.listener.run(func() { close(listening) }) })
	select {
	case <-listening:
	case <-w.life.intake.Done():
		return errors.New("worker: stopped before it had started")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for range 3 {
		sent := time.Now()
		if err := w.rdb.Ping(ctx).Err(); err != nil {
			return err
		}
		w.renewer.took(time.Since(sent))
	}
	w.life.run(w.listener.cancelWaiting)
	w.life.run(w.renewer.run)
	w.life.run(w.wakeUps.run)
	w.life.run(w.tokens.run)
	w.timers.start()
	w.dispatcher.start()
	return nil
}

// Run starts the worker, waits for the end of ctx, and stops it. Then turns may run for
// DrainTimeout.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return w.Stop(context.WithoutCancel(ctx))
}

// Status is the state of a worker.
type Status struct {
	Slots    int           // turns that it runs at once
	Running  int           // sessions that it runs
	Waiting  int           // those of them that wait for a decision without a slot
	Draining bool          // Stop was called
	Left     time.Duration // how long a drain lets turns run, or NoLimit. 0: they are being interrupted

	// Unable are the agents that it cannot start now, by name, with a sentence that says why. Their
	// sessions wait, or run on other workers.
	Unable map[string]string
}

// Status returns the worker's state without a call to Redis.
func (w *Worker) Status() Status {
	running, left, draining := w.roster.progress()
	return Status{Slots: w.opts.Concurrency, Running: running, Waiting: min(running, len(w.dispatcher.slots.lent)), Draining: draining, Left: left, Unable: w.dispatcher.pauses.unable()}
}
