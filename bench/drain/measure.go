package main

import (
	"context"
	"os"
	"runtime/pprof"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/bench/internal/lab"
)

// measure is the cost of one drain, per message except for the rate.
type measure struct {
	rate      float64 // messages a second
	usec      float64 // of Redis's time for the commands that were sent
	commands  float64 // sent; a script is one
	whole     float64 // messages a second, including the time to enqueue them
	processor float64 // us, of this process and of Redis, the same
}

// clock measures time and processor time from here on.
type clock struct {
	admin         redis.UniversalClient
	start         time.Time
	client, redis time.Duration
}

func startClock(ctx context.Context, admin redis.UniversalClient) (c clock, err error) {
	c = clock{admin: admin, start: time.Now()}
	if c.client, err = lab.ProcessorTime(); err != nil {
		return c, err
	}
	c.redis, err = lab.RedisProcessor(ctx, admin)
	return c, err
}

// read returns the time since the start, and the processor time of both processes.
func (c clock) read(ctx context.Context) (took, processor time.Duration, err error) {
	now, err := startClock(ctx, c.admin)
	return now.start.Sub(c.start), now.client - c.client + now.redis - c.redis, err
}

func median(all []measure) measure {
	pick := func(figure func(measure) float64) float64 { return lab.MedianOf(all, figure) }
	return measure{
		pick(func(m measure) float64 { return m.rate }),
		pick(func(m measure) float64 { return m.usec }),
		pick(func(m measure) float64 { return m.commands }),
		pick(func(m measure) float64 { return m.whole }),
		pick(func(m measure) float64 { return m.processor }),
	}
}

func startProfile(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, pprof.StartCPUProfile(f)
}
