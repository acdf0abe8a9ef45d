package script

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Batcher sends the calls of many goroutines. While enough requests are in flight,
// further calls wait for one of them to end, and then go together as one pipeline. With
// many goroutines that saves most of the system calls, which are most of what a small
// command costs. A lone caller never waits. On a Redis Cluster a pipeline would be split
// over several servers, so there each call goes alone.
type Batcher struct {
	client redis.UniversalClient
	single bool
	most   int // requests in flight

	mu       sync.Mutex
	inFlight int
	waiting  []*waiter
}

// waiter is a call that waits to be sent.
type waiter struct {
	ctx  context.Context
	call *Call   // one that may share a command, or
	own  command // a command of its own

	// sent receives nil once the call was sent, or the batch that this caller must
	// send, itself the first.
	sent chan []*waiter
}

// NewBatcher makes a Batcher with at most so many requests in flight. More than one, so
// that a connection that hangs delays only its own calls.
func NewBatcher(client redis.UniversalClient, inFlight int) *Batcher {
	_, single := client.(*redis.Client)
	return &Batcher{client: client, single: single, most: inFlight}
}

// Run calls a script once, as [Script.Run] does, in a command of its own. A call that
// waits when ctx ends is not sent; one in flight is waited for.
func (b *Batcher) Run(ctx context.Context, s *Script, keys []string, args ...any) (Result, error) {
	c := newCommand(ctx, s, keys, args)
	if b.begin() {
		defer b.end()
		c.alone(ctx, b.client)
		return c.result()
	}
	w := &waiter{ctx: ctx, own: c}
	if err := b.wait(w); err != nil {
		return nil, err
	}
	return w.own.result()
}

// Do carries out a call, in a command that it may share with others. When ctx ends it
// does as Run does.
func (b *Batcher) Do(ctx context.Context, call *Call) {
	if b.begin() {
		defer b.end()
		b.send(ctx, []command{newShared(ctx, []*Call{call})})
		return
	}
	if err := b.wait(&waiter{ctx: ctx, call: call}); err != nil {
		call.Err = err
	}
}

// DoAll carries out calls in one round trip.
func (b *Batcher) DoAll(ctx context.Context, calls []*Call) { b.send(ctx, b.share(ctx, calls)) }

// DoAfter carries out first, each in a command of its own, and calls after them, in one
// round trip. The parts of a pipeline that go to several nodes of a Redis Cluster are
// sent at once, so there first are waited for, and calls are not sent if one of them
// failed: sent is false.
func (b *Batcher) DoAfter(ctx context.Context, first, calls []*Call) (sent bool) {
	commands := make([]command, len(first))
	for i := range first {
		commands[i] = newShared(ctx, first[i:i+1])
	}
	if b.single {
		b.send(ctx, slices.Concat(commands, b.share(ctx, calls)))
		return true
	}
	b.send(ctx, commands)
	for _, call := range first {
		if call.Err != nil {
			return false
		}
	}
	b.DoAll(ctx, calls)
	return true
}

// begin takes a free request, if there is one.
func (b *Batcher) begin() bool {
	if !b.single {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inFlight == b.most {
		return false
	}
	b.inFlight++
	return true
}

// wait returns when w was sent with others. An error says that it was not sent.
func (b *Batcher) wait(w *waiter) error {
	w.sent = make(chan []*waiter, 1)
	b.mu.Lock()
	if b.inFlight < b.most { // one has ended meanwhile
		b.inFlight++
		w.sent <- []*waiter{w}
	} else {
		b.waiting = append(b.waiting, w)
	}
	b.mu.Unlock()
	var batch []*waiter
	select {
	case batch = <-w.sent:
	case <-w.ctx.Done():
		if b.cancel(w) {
			return w.ctx.Err()
		}
		batch = <-w.sent
	}
	if batch != nil {
		defer b.end()
		b.sendBatch(batch)
	}
	return nil
}

// cancel takes w out of those who wait; false: it is in flight.
func (b *Batcher) cancel(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, w)
	if i < 0 {
		return false
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return true
}

// end frees a request, or has the first of those who wait send all of them.
func (b *Batcher) end() {
	if !b.single {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	batch := b.waiting
	b.waiting = nil
	if len(batch) == 0 {
		b.inFlight--
		return
	}
	batch[0].sent <- batch
}

func (b *Batcher) sendBatch(batch []*waiter) {
	ctx := batch[0].ctx
	if len(batch) > 1 {
		// The first one's end must not end the others.
		ctx = context.WithoutCancel(ctx)
		defer func() {
			for _, w := range batch[1:] {
				w.sent <- nil
			}
		}()
	}
	var commands []command
	var calls []*Call
	for _, w := range batch {
		if w.call != nil {
			calls = append(calls, w.call)
		} else {
			commands = append(commands, w.own)
		}
	}
	commands = append(commands, b.share(ctx, calls)...)
	b.send(ctx, commands)
	for _, w := range batch {
		if w.call == nil {
			w.own, commands = commands[0], commands[1:]
		}
	}
}

// send carries out commands in one round trip, and hands their results to their calls.
func (b *Batcher) send(ctx context.Context, commands []command) {
	if len(commands) == 1 {
		commands[0].alone(ctx, b.client)
	} else {
		pipe := b.client.Pipeline()
		for _, c := range commands {
			_ = pipe.Process(ctx, c.cmd)
		}
		_, _ = pipe.Exec(ctx)
		sendUnknown(ctx, b.client, commands)
	}
	for i := range commands {
		if commands[i].calls != nil {
			b.settle(ctx, &commands[i])
		}
	}
}

// Waiting is how many calls wait for a request to end.
func (b *Batcher) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}
