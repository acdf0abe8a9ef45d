package combine

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redisconn"
)

// Call is a call of a script that can do what several calls ask for in one: its
// KEYS are theirs, one call's behind the other's, and so is what follows in ARGV
// on what they share. It answers a list, of one answer to each call. To Redis a
// call in company costs little more than the commands that it makes; alone, a third
// of it is the script itself (bench/README.md).
type Call struct {
	Script *redis.Script
	Shared []any // the same in all calls of the script by one Combiner
	Keys   []string
	Args   []any

	Answer any // of this call alone
	Err    error
}

// mostJoined and joinedBytes are how many calls share a command, and with how much
// text: Redis does nothing else meanwhile, and keeps all of it at once. More save
// little.
const (
	mostJoined  = 32
	joinedBytes = 256 << 10
)

// joint is the command that some calls share.
type joint struct {
	cmd   *redis.Cmd
	calls []*Call
}

// DoAll carries out calls in one round trip.
func (c *Combiner) DoAll(ctx context.Context, calls []*Call) { c.send(ctx, nil, c.join(ctx, calls)) }

// DoBehind carries out first, each in a command of its own, and calls behind them, in
// one round trip. The parts of a pipeline that go to several nodes of a Redis Cluster are
// sent at once, so there first are waited for, and where one of them failed calls are not
// sent: sent is false.
func (c *Combiner) DoBehind(ctx context.Context, first, calls []*Call) (sent bool) {
	joints := make([]joint, len(first))
	for i, call := range first {
		joints[i] = newJoint(ctx, []*Call{call})
	}
	if c.single {
		c.send(ctx, nil, slices.Concat(joints, c.join(ctx, calls)))
		return true
	}
	c.send(ctx, nil, joints)
	for _, call := range first {
		if call.Err != nil {
			return false
		}
	}
	c.DoAll(ctx, calls)
	return true
}

// join makes commands of calls: on a Redis Cluster, where a script may touch the
// keys of one session only, one of each.
func (c *Combiner) join(ctx context.Context, calls []*Call) (joints []joint) {
	most := mostJoined
	if !c.single {
		most = 1
	}
	open, size := map[*redis.Script][]*Call{}, map[*redis.Script]int{}
	closeGroup := func(s *redis.Script) {
		joints = append(joints, newJoint(ctx, open[s]))
		delete(open, s)
		delete(size, s)
	}
	for _, call := range calls {
		s := call.Script
		open[s] = append(open[s], call)
		if size[s] += call.bytes(); len(open[s]) == most || size[s] >= joinedBytes {
			closeGroup(s)
		}
	}
	for s := range open {
		closeGroup(s)
	}
	return joints
}

// bytes is how much text a call has in its arguments.
func (c *Call) bytes() (n int) {
	for _, a := range c.Args {
		if s, ok := a.(string); ok {
			n += len(s)
		}
	}
	return n
}

func newJoint(ctx context.Context, calls []*Call) joint {
	keys, args := words(calls)
	return joint{EvalSha(ctx, calls[0].Script, keys, args), calls}
}

// words are the KEYS and ARGV of a command that calls share.
func words(calls []*Call) (keys []string, args []any) {
	args = append(args, calls[0].Shared...)
	for _, call := range calls {
		keys = append(keys, call.Keys...)
		args = append(args, call.Args...)
	}
	return keys, args
}

// EvalSha is the command that calls a script by its hash.
func EvalSha(ctx context.Context, s *redis.Script, keys []string, args []any) *redis.Cmd {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, "evalsha", s.Hash(), len(keys))
	for _, k := range keys {
		words = append(words, k)
	}
	cmd := redis.NewCmd(ctx, append(words, args...)...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// settle hands out what a command was answered. What Redis refuses together it is
// asked for one by one: a proxy may take no script for several sessions, and
// nobody's error is another's. An error that may pass is all callers': one by one
// they would wait for it to pass, each in turn.
func (c *Combiner) settle(ctx context.Context, j joint) {
	answers, err := j.cmd.Slice()
	switch {
	case redis.HasErrorPrefix(err, "NOSCRIPT"):
		keys, args := words(j.calls)
		j.cmd = j.calls[0].Script.Eval(ctx, c.client, keys, args...)
		c.settle(ctx, j)
		return
	case redisconn.Refused(err) && len(j.calls) > 1:
		for _, call := range j.calls {
			alone := newJoint(ctx, []*Call{call})
			_ = c.client.Process(ctx, alone.cmd)
			c.settle(ctx, alone)
		}
		return
	}
	if err == nil && len(answers) != len(j.calls) {
		err = fmt.Errorf("a script answered %d calls with %d answers", len(j.calls), len(answers))
	}
	for i, call := range j.calls {
		if call.Err = err; err == nil {
			call.Answer = answers[i]
		}
	}
}
