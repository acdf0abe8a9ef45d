package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/maintenance"
	"turnstile/internal/protocol/recovery"
)

// maintenanceQueue is the asynq queue of the maintenance jobs, which need no order and may run
// late.
const maintenanceQueue = "turnstile:maintenance"

// endPatience is how long end waits for the server, which gives a running job 2 s.
const endPatience = 3 * time.Second

// jobTimeout is the shortest timeout of a job, however often it runs.
const jobTimeout = 10 * time.Minute

// job is one periodic task of the maintenance queue.
type job struct {
	name  string
	every time.Duration
	run   func(context.Context) (int, error)
	paced bool // it may run long, and a drain cancels it
}

// jobs returns all jobs.
func jobs(r *recovery.Recovery, m *maintenance.Maintenance) []job {
	return []job{
		{"turnstile:purge", 5 * time.Minute, m.Purge, false},
		{"turnstile:unregister", 20 * time.Second, m.Unregister, true},
		{"turnstile:trim", 20 * time.Second, m.Trim, true},
		{"turnstile:forget", time.Hour, m.Forget, false},
		{"turnstile:find", time.Minute, r.Find, true},
	}
}

// jobServer is an asynq.Server and the enqueuing of its jobs. Every worker has one. A job's task
// ID names its time slot, so that only one worker runs it. The server's heartbeat represents the
// worker on asynqmon's Servers page.
type jobServer struct {
	server *asynq.Server
	client *asynq.Client
	log    *slog.Logger
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// startJobs runs every job at its own interval, or all at Config.jobsEvery, which tests set. server
// is the Redis client of the asynq.Server. Its heartbeat shows the running turns.
func startJobs(rdb, server redis.UniversalClient, all []job, c Config) (*jobServer, error) {
	feeding, cancel := context.WithCancel(context.Background())
	m := &jobServer{
		client: asynq.NewClientFromRedisClient(rdb),
		log:    c.Logger.With("component", "maintenance"),
		cancel: cancel,
	}
	m.server = asynq.NewServerFromRedisClient(server, asynq.Config{
		Concurrency:       len(all), // no job waits for another: find takes a quarter of a minute
		Queues:            map[string]int{maintenanceQueue: 1},
		TaskCheckInterval: time.Second, // Stop waits up to one and a half times as long
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
		if c.jobsEvery > 0 {
			j.every = c.jobsEvery
		}
		m.done.Add(1)
		go func() {
			defer m.done.Done()
			m.feed(feeding, j)
		}()
	}
	return m, nil
}

// feed enqueues a job at the beginning of each of its time slots, unless another worker has. It
// skips the worker's start, when there is other work to do. Slots follow this machine's clock; with
// a wrong clock a job runs twice, which is harmless.
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

// stop starts no further job. The heartbeat continues, because the drain's turns may run for long.
func (m *jobServer) stop() {
	m.cancel()
	m.done.Wait()
	m.server.Stop()
}

// end ends the server, after stop, when no turn runs any more. It does not wait for a Redis that
// hangs: the heartbeat's keys expire in 10 s.
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

// asynqLogger writes asynq's own log, Info at level debug: it matters only when something is
// wrong.
type asynqLogger struct{ log *slog.Logger }

func (l asynqLogger) write(level slog.Level, args []any) {
	l.log.Log(context.Background(), level, "asynq", "text", fmt.Sprint(args...))
}

func (l asynqLogger) Debug(args ...any) { l.write(slog.LevelDebug, args) }
func (l asynqLogger) Info(args ...any)  { l.write(slog.LevelDebug, args) }
func (l asynqLogger) Warn(args ...any)  { l.write(slog.LevelWarn, args) }
func (l asynqLogger) Error(args ...any) { l.write(slog.LevelError, args) }
func (l asynqLogger) Fatal(args ...any) { l.write(slog.LevelError, args) }
