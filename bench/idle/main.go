// Command idle counts the commands that one worker sends to Redis while there is nothing to do:
// with no session at all, and with thousands of known, idle ones. It compares them with those of an
// asynq server with a queue for each session. It also measures a whole sweep over the known sessions,
// and "worker ls". It starts its own redis-server.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/bench/internal/lab"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/worker"
)

var (
	sessions = flag.Int("sessions", 5000, "sessions that are known and idle")
	window   = flag.Duration("window", time.Minute, "how long is counted: the sweep comes every 15 s, the purge every 5 min")
)

func main() { lab.Main("idle", run) }

func run(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	over := lab.Quick(*window, 20*time.Second)
	for _, n := range []int{0, *sessions} {
		if err := srv.Clear(ctx); err != nil {
			return err
		}
		rdb := srv.Client()
		err := lab.Known(ctx, rdb, "idle", n)
		_ = rdb.Close()
		if err != nil {
			return err
		}
		if n > 0 {
			if err := whole(ctx, srv, report, n); err != nil {
				return err
			}
		}
		length := over
		if n == 0 {
			length /= 3 // no sweep has sessions to read
		}
		ours, err := counted(ctx, srv, length, func(rdb redis.UniversalClient) (func(), error) {
			w, err := worker.New(rdb, echo.New(), lab.Production(10))
			if err != nil {
				return nil, err
			}
			return func() { lab.Stop(ctx, w) }, w.Start(ctx)
		})
		if err != nil {
			return err
		}
		report.Add(fmt.Sprintf("one idle worker, %d sessions known: commands", n), "%s", ours)
		report.Add("  most of them", "%s", ours.most)
		lab.Progress("%d sessions", n)
	}

	if err := srv.Clear(ctx); err != nil {
		return err
	}
	most := min(*sessions, 5000) // asynq asks for all of them in one command
	theirs, err := counted(ctx, srv, over/6, func(rdb redis.UniversalClient) (func(), error) {
		queues := map[string]int{}
		for i := range most {
			queues[fmt.Sprintf("queue:%d", i)] = 1
		}
		s := asynq.NewServerFromRedisClient(rdb, asynq.Config{Concurrency: 10, Queues: queues, LogLevel: asynq.FatalLevel})
		return s.Shutdown, s.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil }))
	})
	if err != nil {
		return err
	}
	report.Add(fmt.Sprintf("one idle asynq server, %d queues: commands", most), "%s", theirs)
	report.Add("  most of them", "%s", theirs.most)
	return nil
}

// rate is the commands sent per second.
type rate struct {
	commands float64
	redis    float64 // share of one core that Redis took for them
	most     string
}

func (r rate) String() string {
	return fmt.Sprintf("%.1f/s, %.2f %% of a Redis core", r.commands, 100*r.redis)
}

// counted counts the commands of a client while its owner has nothing to do.
func counted(ctx context.Context, srv *lab.Server, window time.Duration, start func(redis.UniversalClient) (stop func(), err error)) (rate, error) {
	admin, rdb := srv.Client(), srv.Client()
	defer admin.Close()
	defer rdb.Close()
	sent := lab.Count(rdb)
	stop, err := start(rdb)
	if err != nil {
		return rate{}, err
	}
	defer stop()
	// Commands at its start, and for recovery then, do not count.
	time.Sleep(2 * time.Second)
	if err := lab.Until(ctx, "an empty index of owned sessions", 100*time.Millisecond, func() (bool, error) {
		n, err := admin.ZCard(ctx, rediskey.Owned).Result()
		return n == 0, err
	}); err != nil {
		return rate{}, err
	}
	sent.Reset()
	if err := admin.ConfigResetStat(ctx).Err(); err != nil {
		return rate{}, err
	}
	began := time.Now()
	select {
	case <-time.After(window):
	case <-ctx.Done():
		return rate{}, context.Cause(ctx)
	}
	usec, err := lab.RedisTime(ctx, admin, sent.Commands())
	seconds := time.Since(began).Seconds()
	return rate{float64(sent.Total()) / seconds, usec / 1e6 / seconds, sent.Most(seconds)}, err
}
