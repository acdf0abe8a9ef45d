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

	"turnstile/pkg/sessionqueue"
)

// maintenanceQueue is the asynq queue of the jobs that need no order and no
// hurry.
const maintenanceQueue = "turnstile:maintenance"

// jobTimeout is how long a job may take at least, however often it is due.
const jobTimeout = 10 * time.Minute

// job is one periodic task of the maintenance queue.
type job struct {
	name  string
	every time.Duration
	run   func(*sessionqueue.Consumer, context.Context) (int, error)
	paced bool // it takes its time, and is cut short when the worker drains
}

var jobs = []job{
	{"turnstile:purge", 5 * time.Minute, (*sessionqueue.Consumer).Purge, false},
	{"turnstile:unregister", 20 * time.Second, (*sessionqueue.Consumer).Unregister, true},
	{"turnstile:forget", time.Hour, (*sessionqueue.Consumer).Forget, false},
	{"turnstile:find", time.Minute, (*sessionqueue.Consumer).Find, true},
}

// maintenance is an asynq.Server and what feeds it. Every worker has one; a job's
// task id holds its time slot, so that one worker runs it.
type maintenance struct {
	server *asynq.Server
	client *asynq.Client
	log    *slog.Logger
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// startMaintenance runs every job at its own interval, or all at the given one.
func startMaintenance(rdb redis.UniversalClient, queue *sessionqueue.Consumer, log *slog.Logger, every time.Duration) (*maintenance, error) {
	feeding, cancel := context.WithCancel(context.Background())
	m := &maintenance{
		client: asynq.NewClientFromRedisClient(rdb),
		log:    log.With("component", "maintenance"),
		cancel: cancel,
	}
	m.server = asynq.NewServerFromRedisClient(rdb, asynq.Config{
		Concurrency:       len(jobs), // none waits for another: find takes a quarter of a minute
		Queues:            map[string]int{maintenanceQueue: 1},
		TaskCheckInterval: time.Second, // Shutdown waits for up to one and a half of it
		ShutdownTimeout:   2 * time.Second,
		Logger:            asynqLogger{m.log},
		LogLevel:          asynq.InfoLevel,
	})
	mux := asynq.NewServeMux()
	for _, j := range jobs {
		mux.HandleFunc(j.name, func(ctx context.Context, _ *asynq.Task) error {
			if j.paced {
				var cancel context.CancelFunc
				ctx, cancel = context.WithCancel(ctx)
				defer cancel()
				defer context.AfterFunc(feeding, cancel)()
			}
			n, err := j.run(queue, ctx)
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
	for _, j := range jobs {
		if every > 0 {
			j.every = every
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
func (m *maintenance) feed(ctx context.Context, j job) {
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

func (m *maintenance) stop() {
	m.cancel()
	m.done.Wait()
	m.server.Shutdown()
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
