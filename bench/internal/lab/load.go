package lab

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/worker"
)

const senders = 16

// Parallel calls f for 0..n-1 from a few goroutines.
func Parallel(n int, f func(i int) error) error {
	var wg sync.WaitGroup
	errs := make(chan error, senders)
	for s := range senders {
		wg.Go(func() {
			for i := s; i < n; i += senders {
				if err := f(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// Load is a shape of work: a number of sessions with messages each.
type Load struct{ Sessions, Each int }

func (l Load) String() string { return fmt.Sprintf("%d x %d", l.Sessions, l.Each) }

// ParseLoads reads loads as a flag has them: 1000x10,10000x1. There may be none.
func ParseLoads(s string) ([]Load, error) {
	var all []Load
	for word := range strings.SplitSeq(s, ",") {
		if word == "" {
			continue // none
		}
		var l Load
		if _, err := fmt.Sscanf(word, "%dx%d", &l.Sessions, &l.Each); err != nil {
			return nil, fmt.Errorf("loads: %q: want SESSIONSxMESSAGES", word)
		}
		all = append(all, l)
	}
	return all, nil
}

// Tenth is a load of the same shape with a tenth of the messages.
func (l Load) Tenth() Load {
	if l.Each >= 100 {
		return Load{Sessions: l.Sessions, Each: l.Each / 10}
	}
	return Load{Sessions: max(1, l.Sessions/10), Each: l.Each}
}

// Messages is the number of messages in all.
func (l Load) Messages() int { return l.Sessions * l.Each }

// Fill sends a load. The names of its sessions begin with prefix.
func (l Load) Fill(ctx context.Context, rdb redis.UniversalClient, prefix, text string) error {
	client := turnstile.NewClient(rdb)
	return Parallel(l.Messages(), func(i int) error {
		_, err := client.Session(fmt.Sprintf("%s:%d", prefix, i%l.Sessions)).Send(ctx, turnstile.Message{Text: text})
		return err
	})
}

// Production has a worker's production config. Only the log is dropped.
func Production(slots int) worker.Config {
	return worker.Config{Concurrency: slots, Logger: slog.New(slog.DiscardHandler)}
}

// Work starts a worker.
func Work(ctx context.Context, rdb redis.UniversalClient, a agent.Agent, opts worker.Config) (*worker.Worker, error) {
	w, err := worker.New(rdb, a, opts)
	if err != nil {
		return nil, err
	}
	return w, w.Start(ctx)
}

// Stop lets a worker's turns end, and stops it.
func Stop(ctx context.Context, w *worker.Worker) { _ = w.Stop(ctx) }

// patience bounds the wait for an event: longer than any slow machine takes.
const patience = 10 * time.Minute

// Until waits until done returns true.
func Until(ctx context.Context, what string, every time.Duration, done func() (bool, error)) error {
	for deadline := time.Now().Add(patience); ; {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s did not come about in %s", what, patience)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(every):
		}
	}
}

// Next receives an event that must come.
func Next[T any](ctx context.Context, from <-chan T) (next T, err error) {
	select {
	case next = <-from:
		return next, nil
	case <-ctx.Done():
		return next, context.Cause(ctx)
	case <-time.After(patience):
		return next, fmt.Errorf("%T: nothing came in %s", from, patience)
	}
}
