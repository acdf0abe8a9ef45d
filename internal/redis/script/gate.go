package script

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Gate limits the number of requests to Redis in flight. While all are in use, further items wait,
// and are sent together when one ends, as databases commit transactions in groups. With many
// goroutines that saves most of the system calls, which are most of the cost of a small command. A
// lone caller never waits.
type Gate[T any] struct {
	most int // requests in flight
	send func(ctx context.Context, items []T)

	mu       sync.Mutex
	inFlight int
	waiting  []*waiter[T]
}

// ErrPanicked is the error of items that may have been sent, because the caller that sent them
// panicked.
var ErrPanicked = errors.New("the call that sent this batch has panicked")

// mostTogether bounds the items that are sent together. More save little.
const mostTogether = 256

type waiter[T any] struct {
	ctx  context.Context
	item T

	// sent receives nil once the item was sent, or the batch that this caller must send, which
	// begins with its own item.
	sent chan []*waiter[T]
	err  error // may be read once sent has received nil
}

// NewGate makes a gate. send sends items together. It has the context of the only item, or one that
// does not end. With more than one request in flight, a connection that hangs delays only its own
// items.
func NewGate[T any](most int, send func(ctx context.Context, items []T)) *Gate[T] {
	return &Gate[T]{most: most, send: send}
}

// Do sends an item, perhaps with others. If ctx ends while the item waits, it is not sent, and Do
// returns the context's error. An item in flight is always waited for; the error is ErrPanicked if
// it is unknown whether it was sent.
func (g *Gate[T]) Do(ctx context.Context, item T) error {
	w := g.enter(ctx, item)
	if w == nil {
		defer g.end()
		g.send(ctx, []T{item})
		return nil
	}
	var batch []*waiter[T]
	select {
	case batch = <-w.sent:
	case <-ctx.Done():
		if g.cancel(w) {
			return ctx.Err()
		}
		batch = <-w.sent
	}
	if batch != nil {
		defer g.end()
		g.sendBatch(batch)
	}
	return w.err
}

// enter takes a free request, or adds the item to those that wait.
func (g *Gate[T]) enter(ctx context.Context, item T) *waiter[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inFlight < g.most {
		g.inFlight++
		return nil
	}
	w := &waiter[T]{ctx: ctx, item: item, sent: make(chan []*waiter[T], 1)}
	g.waiting = append(g.waiting, w)
	return w
}

// cancel removes w from the waiting items. It returns false if w is in flight.
func (g *Gate[T]) cancel(w *waiter[T]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, w)
	if i < 0 {
		return false
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	return true
}

// end frees a request, or makes the first waiting caller send the waiting items.
func (g *Gate[T]) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), mostTogether)
	if n == 0 {
		g.inFlight--
		return
	}
	batch := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	batch[0].sent <- batch
}

func (g *Gate[T]) sendBatch(batch []*waiter[T]) {
	ctx, items := batch[0].ctx, make([]T, len(batch))
	for i, w := range batch {
		items[i] = w.item
	}
	if len(batch) > 1 {
		ctx = context.WithoutCancel(ctx) // the first caller's context must not end the others' items
	}
	err := ErrPanicked // a server may recover from it
	defer func() {
		for _, w := range batch[1:] {
			w.err = err
			w.sent <- nil
		}
	}()
	g.send(ctx, items)
	err = nil
}

// Waiting returns how many items wait for a request to end.
func (g *Gate[T]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}
