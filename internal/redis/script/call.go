package script

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/backoff"
	"turnstile/internal/redis/redisconn"
)

// Call is a call of a script, with its result.
//
// With [Batcher.Do] several calls of a script share one command, so the script must support that:
// KEYS and the part of ARGV after Shared hold the values of all calls, one call after the other,
// and the script returns a list with one result for each call. In a shared command a call costs
// Redis little more than the commands that it makes; alone, a third of its cost is the script
// itself (bench/README.md).
type Call struct {
	Script *Script
	Shared []any // first in ARGV; the same in all calls of the script with one Batcher
	Keys   []string
	Args   []any

	Result Result // of this call alone
	Err    error  // wraps redisconn.ErrUnsure if Unsure

	// Unsure means that an earlier attempt may have been carried out: a result or an error that
	// says that nothing was changed is only about the last attempt. A caller sets it for a call
	// that follows an unsure one.
	Unsure bool
}

// mostShared and sharedBytes bound the calls that share a command, and their text: Redis serves no
// other client meanwhile, and has all of it in memory. Larger ones save little.
const (
	mostShared  = 32
	sharedBytes = 256 << 10
)

// Pipeline sends calls in one round trip, each in a separate command, after the commands that ahead
// adds to the pipeline; ahead may be nil. Each call has its own error. The returned error is the
// first one of ahead's commands, except redis.Nil.
func Pipeline(ctx context.Context, client redis.UniversalClient, calls []*Call, ahead func(redis.Pipeliner)) error {
	commands := make([]command, len(calls))
	for i := range calls {
		commands[i] = newShared(ctx, calls[i:i+1])
	}
	others := together(ctx, client, ahead, commands)
	for i, call := range calls {
		call.take(&commands[i])
	}
	for _, cmd := range others {
		if err := cmd.Err(); err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
			return err
		}
	}
	return nil
}

// together sends commands in one round trip, after the commands that ahead adds, and returns those.
// ahead may be nil.
func together(ctx context.Context, client redis.UniversalClient, ahead func(redis.Pipeliner), commands []command) (others []redis.Cmder) {
	pipe := client.Pipeline()
	if ahead != nil {
		ahead(pipe)
	}
	n := pipe.Len()
	for _, c := range commands {
		_ = pipe.Process(ctx, once{c.cmd})
	}
	all, _ := pipe.Exec(ctx) // each command has its error
	others = all[:min(n, len(all))]
	sendAgain(ctx, client, others, commands)
	return others
}

// take takes the result of the call's separate command.
func (c *Call) take(from *command) {
	c.Result, c.Err = from.result()
	c.Unsure = from.unsure
}

// Each calls the script n times in one round trip, as Pipeline does. args returns the KEYS and
// ARGV of call i.
func (s *Script) Each(ctx context.Context, client redis.UniversalClient, n int, args func(i int) ([]string, []any)) []*Call {
	calls := make([]*Call, n)
	for i := range calls {
		calls[i] = &Call{Script: s}
		calls[i].Keys, calls[i].Args = args(i)
	}
	_ = Pipeline(ctx, client, calls, nil) // each call has its error
	return calls
}

// newShared makes the command that calls share.
func newShared(ctx context.Context, calls []*Call) command {
	first := calls[0]
	keys, args, unsure := 0, len(first.Shared), false
	for _, call := range calls {
		unsure = unsure || call.Unsure
		keys += len(call.Keys)
		args += len(call.Args)
	}
	w := words(first.Script, keys, args)
	for _, call := range calls {
		for _, key := range call.Keys {
			w = append(w, key)
		}
	}
	w = append(w, first.Shared...)
	for _, call := range calls {
		w = append(w, call.Args...)
	}
	return command{script: first.Script, cmd: newCmd(ctx, w), calls: calls, unsure: unsure}
}

// share groups calls into commands. On a Redis Cluster, where a script may touch the keys of only
// one session, each call has its own command.
func (b *Batcher) share(ctx context.Context, calls []*Call) (commands []command) {
	most := mostShared
	if !b.single {
		most = 1
	}
	open, size := map[*Script][]*Call{}, map[*Script]int{}
	closeGroup := func(s *Script) {
		commands = append(commands, newShared(ctx, open[s]))
		delete(open, s)
		delete(size, s)
	}
	for _, call := range calls {
		s := call.Script
		open[s] = append(open[s], call)
		if size[s] += call.bytes(); len(open[s]) == most || size[s] >= sharedBytes {
			closeGroup(s)
		}
	}
	for s := range open {
		closeGroup(s)
	}
	return commands
}

// bytes is the length of the texts in a call's arguments.
func (c *Call) bytes() (n int) {
	for _, a := range c.Args {
		switch text := a.(type) {
		case string:
			n += len(text)
		case []byte:
			n += len(text)
		}
	}
	return n
}

// distribute gives the results of a command to its calls. If Redis refuses a shared command,
// distribute sends each call alone: a proxy may reject a script with keys of several sessions,
// and one call's error must not become another's. An error that may pass is given to all calls:
// sent alone, each would wait for it to pass, one after the other.
func (b *Batcher) distribute(ctx context.Context, c *command) {
	results, err := c.cmd.Slice()
	if err != nil && len(c.calls) > 1 && redisconn.Refused(err) {
		for i := range c.calls {
			alone := newShared(ctx, c.calls[i:i+1])
			alone.unsure = c.unsure
			alone.alone(ctx, b.client)
			b.distribute(ctx, &alone)
		}
		return
	}
	if err == nil && len(results) != len(c.calls) {
		err = fmt.Errorf("a script returned %d results for %d calls", len(results), len(c.calls))
	}
	err = c.failed(err)
	for i, call := range c.calls {
		call.Unsure = c.unsure
		if call.Err = err; err == nil {
			call.Result = resultOf(results[i])
		}
	}
}

// Repeat repeats call, with a growing pause, while its error may pass and until ctx ends. Then
// the error wraps the cause of ctx's end and call's last error.
func Repeat(ctx context.Context, call func() error) error {
	pauses := backoff.Backoff{First: 10 * time.Millisecond, Longest: 500 * time.Millisecond}
	for failures := 1; ; failures++ {
		err := call()
		if err == nil || !redisconn.MayPass(err) {
			return err
		}
		pauses.Wait(ctx.Done(), failures)
		if ctx.Err() != nil {
			return fmt.Errorf("%w (last error: %w)", context.Cause(ctx), err)
		}
	}
}
