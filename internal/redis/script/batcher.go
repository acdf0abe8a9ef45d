package script

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Batcher sends the calls of many goroutines through a [Gate]: calls that are sent together are one
// pipeline. A Redis Cluster would split a pipeline over several servers, so there each call is sent
// alone, at once.
type Batcher struct {
	client redis.UniversalClient
	single bool
	gate   *Gate[*item]
}

// item is a call that may share a command, or one with a separate command.
type item struct {
	call *Call
	own  command
}

// NewBatcher makes a Batcher with at most inFlight requests in flight.
func NewBatcher(client redis.UniversalClient, inFlight int) *Batcher {
	_, single := client.(*redis.Client)
	b := &Batcher{client: client, single: single}
	b.gate = NewGate(inFlight, b.together)
	return b
}

// Run calls a script once, as [Script.Run] does, in a separate command. If ctx ends while the call
// waits, it is not sent. A call in flight is always waited for.
func (b *Batcher) Run(ctx context.Context, s *Script, keys []string, args ...any) (Result, error) {
	i := &item{own: newCommand(ctx, s, keys, args)}
	if err := b.do(ctx, i); err != nil {
		return nil, err
	}
	return i.own.result()
}

// Do carries out a call, in a command that it may share with others. If ctx ends, it does the same
// as Run.
func (b *Batcher) Do(ctx context.Context, call *Call) {
	if err := b.do(ctx, &item{call: call}); err != nil {
		call.Err = err
	}
}

func (b *Batcher) do(ctx context.Context, i *item) error {
	if b.single {
		return b.gate.Do(ctx, i)
	}
	b.together(ctx, []*item{i})
	return nil
}

// DoAll carries out calls in one round trip.
func (b *Batcher) DoAll(ctx context.Context, calls []*Call) { b.send(ctx, b.share(ctx, calls), nil) }

// DoBehind carries out, in one round trip, the commands that ahead adds to a pipeline, the calls of
// own, each in a separate command, and calls. ahead may be nil; the errors of its commands are
// lost.
func (b *Batcher) DoBehind(ctx context.Context, ahead func(redis.Pipeliner), own, calls []*Call) {
	alone := make([]command, len(own))
	for i := range own {
		alone[i] = newShared(ctx, own[i:i+1])
		alone[i].calls = nil
	}
	commands := slices.Concat(alone, b.share(ctx, calls))
	b.send(ctx, commands, ahead)
	for i, call := range own {
		call.take(&commands[i])
	}
}

// DoAfter carries out the calls of first, each in a separate command, and then calls, all in one
// round trip. A Redis Cluster runs the parts of a pipeline on several nodes at once, so there
// DoAfter waits for first. If one of first failed, it does not send calls, and sent is false.
func (b *Batcher) DoAfter(ctx context.Context, first, calls []*Call) (sent bool) {
	commands := make([]command, len(first))
	for i := range first {
		commands[i] = newShared(ctx, first[i:i+1])
	}
	if b.single {
		b.send(ctx, slices.Concat(commands, b.share(ctx, calls)), nil)
		return true
	}
	b.send(ctx, commands, nil)
	for _, call := range first {
		if call.Err != nil {
			return false
		}
	}
	b.DoAll(ctx, calls)
	return true
}

// together sends items as one pipeline.
func (b *Batcher) together(ctx context.Context, items []*item) {
	commands, calls := make([]command, 0, len(items)), make([]*Call, 0, len(items))
	for _, i := range items {
		if i.call != nil {
			calls = append(calls, i.call)
		} else {
			commands = append(commands, i.own)
		}
	}
	commands = append(commands, b.share(ctx, calls)...)
	b.send(ctx, commands, nil)
	for _, i := range items {
		if i.call == nil {
			i.own, commands = commands[0], commands[1:]
		}
	}
}

// send carries out the commands of ahead and then commands, in one round trip, and gives their
// results to their calls.
func (b *Batcher) send(ctx context.Context, commands []command, ahead func(redis.Pipeliner)) {
	if len(commands) == 1 && ahead == nil {
		commands[0].alone(ctx, b.client)
	} else {
		together(ctx, b.client, ahead, commands)
	}
	for i := range commands {
		if commands[i].calls != nil {
			b.distribute(ctx, &commands[i])
		}
	}
}

// Waiting returns how many calls wait for a request to end.
func (b *Batcher) Waiting() int { return b.gate.Waiting() }
