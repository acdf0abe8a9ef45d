package script

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Batcher sends the calls of many goroutines. While enough requests are in flight, further calls
// wait until one of them ends, and are then sent together as one pipeline. With many goroutines
// that saves most of the system calls, which are most of the cost of a small command. A lone
// caller never waits. A Redis Cluster would split a pipeline over several servers, so there each
// call is sent alone.
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
	call *Call   // it may share a command; or
	own  command // it has a command of its own

	// sent receives nil once the call was sent, or the batch that this caller must send, which
	// begins with this call.
	sent chan []*waiter
}

// NewBatcher makes a Batcher with at most inFlight requests in flight. With more than one, a
// connection that hangs delays only its own calls.
func NewBatcher(client redis.UniversalClient, inFlight int) *Batcher {
	_, single := client.(*redis.Client)
	return &Batcher{client: client, single: single, most: inFlight}
}

// Run calls a script once, as [Script.Run] does, in a command of its own. If ctx ends while the
// call waits, it is not sent. A call in flight is always waited for.
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

// Do carries out a call, in a command that it may share with others. If ctx ends it does as Run
// does.
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

// DoAfter carries out the calls of first, each in a command of its own, and then calls, all in
// one round trip. A Redis Cluster runs the parts of a pipeline on several nodes at once, so there
// DoAfter waits for first, and does not send calls if one of first failed: sent is false.
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

// wait returns after w was sent with its batch. An error says that w was not sent.
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

// cancel removes w from the waiting calls. It returns false if w is in flight.
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

// end frees a request, or makes the first waiting caller send all waiting calls.
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
		// The first caller's context must not end the others' calls.
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

// send carries out commands in one round trip, and gives their results to their calls.
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
			b.distribute(ctx, &commands[i])
		}
	}
}

// Waiting returns how many calls wait for a request to end.
func (b *Batcher) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}
