package combine

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Call is a call of a script that can do what several calls ask for in one: its
// KEYS are theirs, one call's behind the other's, and so is what follows in ARGV
// on what they share. It answers a list, of one answer to each call. To Redis a
// call in company costs little more than the commands that it makes; alone, half
// of it is the script itself.
type Call struct {
	Script *redis.Script
	Shared []any // the same in all calls of the script by one Combiner
	Keys   []string
	Args   []any

	Answer any // of this call alone
	Err    error
}

// mostJoined is how many calls share a command: Redis does nothing else meanwhile,
// and more save little.
const mostJoined = 32

// joint is the command that some calls share.
type joint struct {
	cmd   *redis.Cmd
	calls []*Call
}

// DoAll carries out calls in one round trip.
func (c *Combiner) DoAll(ctx context.Context, calls []*Call) { c.send(ctx, nil, c.join(ctx, calls)) }

// join makes commands of calls: on a Redis Cluster, where a script may touch the
// keys of one session only, one of each.
func (c *Combiner) join(ctx context.Context, calls []*Call) (joints []joint) {
	most := mostJoined
	if !c.single {
		most = 1
	}
	open := map[*redis.Script][]*Call{}
	for _, call := range calls {
		s := call.Script
		open[s] = append(open[s], call)
		if len(open[s]) == most {
			joints = append(joints, newJoint(ctx, open[s]))
			delete(open, s)
		}
	}
	for _, rest := range open {
		joints = append(joints, newJoint(ctx, rest))
	}
	return joints
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
// nobody's error is another's.
func (c *Combiner) settle(ctx context.Context, j joint) {
	answers, err := j.cmd.Slice()
	var refused redis.Error
	switch {
	case redis.HasErrorPrefix(err, "NOSCRIPT"):
		keys, args := words(j.calls)
		j.cmd = j.calls[0].Script.Eval(ctx, c.client, keys, args...)
		c.settle(ctx, j)
		return
	case errors.As(err, &refused) && len(j.calls) > 1:
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
