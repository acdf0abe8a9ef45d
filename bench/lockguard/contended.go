package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/bench/internal/lab"
)

const contenders = 16

// contention is a library's result when all contend for one key.
type contention struct {
	handoffs    float64 // per second, between different goroutines
	p50, p99    time.Duration
	max         time.Duration
	commands    float64 // per acquire + release; a script is one
	overtakings int
}

// acquisition is one hold of the contended lock. Redis replied to its first command at answered, so
// it knew of the request then.
type acquisition struct {
	goroutine               int
	asked, answered, gotten time.Time
}

type acquisitionKey struct{}

// watch counts the commands that a client sends, and records when Redis replied to the first one of
// an acquisition.
type watch struct{ commands atomic.Int64 }

func (w *watch) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *watch) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		w.commands.Add(1)
		err := next(ctx, cmd)
		if t, ok := ctx.Value(acquisitionKey{}).(*acquisition); ok && t.answered.IsZero() {
			t.answered = time.Now()
		}
		return err
	}
}

func (w *watch) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		w.commands.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

func measureContention(ctx context.Context, s *lab.Server, build maker, length, hold time.Duration) (contention, error) {
	client := s.Client()
	defer func() { _ = client.Close() }()
	w := &watch{}
	client.AddHook(w)
	l, err := build(client)
	if err != nil {
		return contention{}, err
	}
	defer l.close()
	if _, err := contend(ctx, l, length/10, hold); err != nil { // warms up
		return contention{}, err
	}
	w.commands.Store(0)
	acquisitions, err := contend(ctx, l, length, hold)
	if err != nil {
		return contention{}, err
	}
	c := contention{
		commands:    float64(w.commands.Load()) / float64(len(acquisitions)),
		overtakings: overtakings(acquisitions),
	}
	between := 0
	var waits []time.Duration
	for i, t := range acquisitions {
		waits = append(waits, t.gotten.Sub(t.asked))
		if i > 0 && acquisitions[i-1].goroutine != t.goroutine {
			between++
		}
	}
	slices.Sort(waits)
	c.handoffs = float64(between) / acquisitions[len(acquisitions)-1].gotten.Sub(acquisitions[0].gotten).Seconds()
	c.p50, c.p99, c.max = waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1]
	return c, nil
}

// contend makes all contenders acquire one key for a while. It returns the acquisitions in order.
func contend(ctx context.Context, l locker, length, hold time.Duration) ([]*acquisition, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var acquisitions []*acquisition // only the lock under test guards it
	var wg sync.WaitGroup
	start := time.Now()
	for i := range contenders {
		wg.Go(func() {
			for time.Since(start) < length && ctx.Err() == nil {
				t := &acquisition{goroutine: i, asked: time.Now()}
				release, err := l.wait(context.WithValue(ctx, acquisitionKey{}, t), "contended")
				if err != nil {
					cancel(err)
					return
				}
				t.gotten = time.Now()
				acquisitions = append(acquisitions, t)
				time.Sleep(hold)
				if err := release(); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return acquisitions, context.Cause(ctx)
}

// overtakings counts the acquisitions that overtook an earlier one. A request is earlier if Redis
// replied to it before the other one began.
func overtakings(acquisitions []*acquisition) int {
	n := 0
	var earliest time.Time // among the later acquisitions
	for _, t := range slices.Backward(acquisitions) {
		if !earliest.IsZero() && earliest.Before(t.asked) {
			n++
		}
		if earliest.IsZero() || t.answered.Before(earliest) {
			earliest = t.answered
		}
	}
	return n
}
