package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/maintenance"
	"turnstile/internal/recovery"
)

// maintenanceQueue is the asynq queue of the jobs that need no order and no
// hurry.
const maintenanceQueue = "turnstile:maintenance"

// endPatience is how long the end of the server is waited for: a job has 2 s of it.
const endPatience = 3 * time.Second

// jobTimeout is how long a job may take at least, however often it is due.
const jobTimeout = 10 * time.Minute

// job is one periodic task of the maintenance queue.
type job struct {
	name  string
	every time.Duration
	run   func(context.Context) (int, error)
	paced bool // it takes its time, and is cut short when the worker drains
}

// jobs are all of them.
func jobs(r *recovery.Recovery, m *maintenance.Maintenance) []job {
	return []job{
		{"turnstile:purge", 5 * time.Minute, m.Purge, false},
		{"turnstile:unregister", 20 * time.Second, m.Unregister, true},
		{"turnstile:trim", 20 * time.Second, m.Trim, true},
		{"turnstile:forget", time.Hour, m.Forget, false},
		{"turnstile:find", time.Minute, r.Find, true},
	}
}

// jobServer is an asynq.Server and what feeds it. Every worker has one; a job's
// task id holds its time slot, so that one worker runs it. Its heartbeat is the
// worker's, for asynqmon's Servers page.
type jobServer struct {
	server *asynq.Server
	client *asynq.Client
	log    *slog.Logger
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// startJobs runs every job at its own interval, or all at the one of tests.
// server is the Redis of the server, whose heartbeat shows the running turns.
func startJobs(rdb, server redis.UniversalClient, all []job, o Options) (*jobServer, error) {
	feeding, cancel := context.WithCancel(context.Background())
	m := &jobServer{
		client: asynq.NewClientFromRedisClient(rdb),
		log:    o.Logger.With("component", "maintenance"),
		cancel: cancel,
	}
	m.server = asynq.NewServerFromRedisClient(server, asynq.Config{
		Concurrency:       len(all), // none waits for another: find takes a quarter of a minute
		Queues:            map[string]int{maintenanceQueue: 1},
		TaskCheckInterval: time.Second, // Stop waits for up to one and a half of it
		ShutdownTimeout:   2 * time.Second,
		Logger:            asynqLogger{m.log},
		LogLevel:          asynq.InfoLevel,
	})
	mux := asynq.NewServeMux()
	for _, j := range all {
		mux.HandleFunc(j.name, func(ctx context.Context, _ *asynq.Task) error {
			if j.paced {
				var cancel context.CancelFunc
				ctx, cancel = context.WithCancel(ctx)
				defer cancel()
				defer context.AfterFunc(feeding, cancel)()
			}
			n, err := j.run(ctx)
			if n > 0 {
				m.log.Info("maintenance done", "job", j.name, "count", n)
			}
			return err
		})
	}
	if err := m.server.Start(mux); err != nil {
		cancel()
		return nil, fmt.Errorf("start maintenance: %w", err)
	}
	for _, j := range all {
		if o.jobsEvery > 0 {
			j.every = o.jobsEvery
		}
		m.done.Add(1)
		go func() {
			defer m.done.Done()
			m.feed(feeding, j)
		}()
	}
	return m, nil
}

// feed enqueues a job at the beginning of each of its time slots, if no other
// worker has. Not at the worker's start, when there is other work to do. The slot
// is by this machine's clock: at worst a job runs twice, which is harmless.
func (m *jobServer) feed(ctx context.Context, j job) {
	for {
		slot := time.Now().UnixNano()/int64(j.every) + 1
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(time.Unix(0, slot*int64(j.every)))):
		}
		_, err := m.client.EnqueueContext(ctx, asynq.NewTask(j.name, nil), asynq.Queue(maintenanceQueue),
			asynq.TaskID(fmt.Sprintf("%s-%d", j.name, slot)), asynq.Retention(2*j.every), asynq.MaxRetry(0), asynq.Timeout(max(j.every, jobTimeout)))
		if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) && ctx.Err() == nil {
			m.log.Warn("a maintenance job could not be enqueued", "job", j.name, "error", err)
		}
	}
}

// stop begins no further job. The heartbeat goes on: the drain's turns may run for long.
func (m *jobServer) stop() {
	m.cancel()
	m.done.Wait()
	m.server.Stop()
}

// end comes behind stop, when no turn runs any more. It does not wait for a Redis that
// hangs: what the heartbeat has left there ends by itself in 10 s.
func (m *jobServer) end() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.server.Shutdown()
	}()
	patience := time.NewTimer(endPatience)
	defer patience.Stop()
	select {
	case <-ended:
	case <-patience.C:
		m.log.Warn("the maintenance server has not ended in time", "waited", endPatience)
	}
}

// asynqLogger writes asynq's own log, one level quieter: what it tells is of
// interest when something is wrong.
type asynqLogger struct{ log *slog.Logger }

func (l asynqLogger) write(level slog.Level, args []any) {
	l.log.Log(context.Background(), level, "asynq", "said", fmt.Sprint(args...))
}

func (l asynqLogger) Debug(args ...any) { l.write(slog.LevelDebug, args) }
func (l asynqLogger) Info(args ...any)  { l.write(slog.LevelDebug, args) }
func (l asynqLogger) Warn(args ...any)  { l.write(slog.LevelWarn, args) }
func (l asynqLogger) Error(args ...any) { l.write(slog.LevelError, args) }
func (l asynqLogger) Fatal(args ...any) { l.write(slog.LevelError, args) }
