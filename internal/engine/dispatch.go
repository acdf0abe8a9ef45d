package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"turnstile/internal/protocol"
)

const (
	// popBlock is how long one wait for work lasts, and so how long a drain may
	// wait for it: a pop in progress cannot be taken back.
	popBlock = time.Second

	// claimBatch bounds how many sessions are claimed in one round trip: while Redis
	// claims many, the ends of other turns wait.
	claimBatch = 8
)

// dispatch claims sessions for free slots until the worker drains. While it waits
// for a session it holds no slot, so that prefer finds one. Claims are made beside
// the next pop: with Redis busy each of the two waits its turn there.
func (w *Worker) dispatch() {
	defer close(w.popping)
	defer w.dispatching.rest()
	pause, claimed := newPause(), make(chan error, 1)
	for {
		w.dispatching.rest()
		free := w.takeSlots()
		if free == 0 {
			return
		}
		w.dispatching.step()
		sessions, err := w.queue.Pop(w.ctx, free)
		if err == nil && len(sessions) == 0 {
			w.freeSlots(free)
			w.dispatching.step()
			sessions, err = w.queue.Await(w.ctx, popBlock)
			free = w.trySlots(len(sessions))
		}
		if err == nil && (w.Draining() || free < len(sessions)) {
			w.dispatching.step()
			err = w.queue.PutBack(w.ctx, sessions)
			sessions = nil
		}
		w.freeSlots(free - len(sessions))
		if len(sessions) > 0 {
			w.claiming.Go(func() {
				taken, err := w.claim(sessions)
				w.freeSlots(len(sessions) - taken)
				select {
				case claimed <- err:
				default: // dispatch has another claim's to look at
				}
			})
		}
		if err == nil {
			worked := len(sessions) == 0 // and so Redis does
			select {
			case err = <-claimed:
				worked = err == nil
			default:
			}
			if worked {
				pause.reset()
			}
		}
		if err != nil {
			w.log.Warn("claiming sessions failed, trying again", "error", err)
			w.redisFailed(dutyClaim, err)
			pause.wait(w.draining)
		}
	}
}

// prefer claims a session whose agent is kept here, if there is a free slot, ahead
// of the workers that learn of it by the ready index.
func (w *Worker) prefer(session string) {
	if !w.warm.holds(session) || w.trySlots(1) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return // the slots are of no use any more
	}
	w.claiming.Go(func() {
		taken, err := w.claim([]string{session})
		w.freeSlots(1 - taken)
		if err != nil {
			w.log.Debug("the session with a warm agent was not claimed", "session", session, "error", err)
			w.redisFailed(dutyClaim, err)
		}
	})
}

func (w *Worker) claim(sessions []string) (taken int, err error) {
	holds, err := w.queue.Claim(w.ctx, sessions)
	if err != nil { // its reply may be what was lost
		w.loop(func() {
			if err := w.queue.TakeBack(w.ctx); err != nil && w.ctx.Err() == nil {
				w.log.Warn("claims without a reply were not taken back: their sessions wait for the sentinels' end", "error", err)
			}
		})
	}
	if errors.Is(err, protocol.ErrBroken) { // which is no reason to wait with others
		w.log.Error("a session cannot be claimed; it is looked at again in a while", "error", err)
		w.redisFailed(dutyClaim, err)
		err = nil
	}
	for _, h := range holds {
		w.countRecovered(h)
		s := newServed(w, h)
		w.served.Add(1)
		go func() {
			defer w.served.Done()
			defer w.freeSlots(1)
			s.serve()
		}()
	}
	return len(holds), err
}

// takeSlots waits for a free slot and takes all that are free, up to claimBatch.
// 0: the worker drains.
func (w *Worker) takeSlots() (n int) {
	if w.Draining() {
		return 0 // a select would take either, and another pop takes its time
	}
	select {
	case <-w.draining:
		return 0
	case w.slots <- struct{}{}:
	}
	return 1 + w.trySlots(claimBatch-1)
}

// trySlots takes up to n slots, as far as they are free now.
func (w *Worker) trySlots(n int) (taken int) {
	for taken < n {
		select {
		case w.slots <- struct{}{}:
			taken++
		default:
			return taken
		}
	}
	return taken
}

func (w *Worker) freeSlots(n int) {
	for range n {
		<-w.slots
	}
}

// pause is a wait that grows from one failure to the next.
type pause struct{ next time.Duration }

func newPause() *pause { return &pause{next: 50 * time.Millisecond} }

func (p *pause) reset() { p.next = 50 * time.Millisecond }

func (p *pause) wait(done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(p.next):
	}
	p.next = min(2*p.next, 2*time.Second)
}

// waiters asks whether other sessions wait for a worker, at most every 20 ms for
// all turns together.
type waiters struct {
	ask func(context.Context) (bool, error)

	mu    sync.Mutex
	asked time.Time
	wait  bool
}

func (o *waiters) any(ctx context.Context) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.asked) < 20*time.Millisecond {
		return o.wait
	}
	wait, err := o.ask(ctx)
	if err != nil {
		return false // the session goes on: it has the sentinel
	}
	o.asked, o.wait = time.Now(), wait
	return wait
}
