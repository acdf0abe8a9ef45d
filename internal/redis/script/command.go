package script

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/redisconn"
)

// command is an EVALSHA or EVAL, and the calls that share it; calls is nil if the command is not
// shared.
type command struct {
	script *Script
	cmd    *redis.Cmd
	calls  []*Call
	full   bool // sent with the script's text
	unsure bool // an earlier attempt may have been carried out
}

// newCommand makes a command that calls s by its hash.
func newCommand(ctx context.Context, s *Script, keys []string, args []any) command {
	w := words(s, len(keys), len(args))
	for _, key := range keys {
		w = append(w, key)
	}
	return command{script: s, cmd: newCmd(ctx, append(w, args...))}
}

// words returns the beginning of an EVALSHA, with room for its keys and arguments.
func words(s *Script, keys, args int) []any {
	return append(make([]any, 0, 3+keys+args), "evalsha", s.load().hash, keys)
}

func newCmd(ctx context.Context, words []any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, words...)
	cmd.SetFirstKeyPos(3)
	return cmd
}

// again makes a new command: in full, with the script's text, or by the hash.
func (c *command) again(ctx context.Context, full bool) {
	words := append([]any(nil), c.cmd.Args()...)
	if words[0], words[1] = "evalsha", c.script.load().hash; full {
		words[0], words[1] = "eval", c.script.load().source
	}
	c.cmd, c.full = newCmd(ctx, words), full
}

// Client is a Redis, as go-redis' clients and pipelines are.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Run calls the script once.
func (s *Script) Run(ctx context.Context, client Client, keys []string, args ...any) (Result, error) {
	call := Call{Script: s, Keys: keys, Args: args}
	call.Run(ctx, client)
	return call.Result, call.Err
}

// Run sends the call alone.
func (c *Call) Run(ctx context.Context, client Client) {
	one := newCommand(ctx, c.Script, c.Keys, c.Args)
	one.alone(ctx, client)
	c.take(&one)
}

// Full adds the call to a pipeline, with the script's text. Use it if the order of the pipeline's
// commands matters: a NOSCRIPT in the middle could not be repaired.
func (s *Script) Full(ctx context.Context, p redis.Pipeliner, keys []string, args ...any) {
	c := newCommand(ctx, s, keys, args)
	c.again(ctx, true)
	_ = p.Process(ctx, c.cmd)
}

func (c *command) result() (Result, error) {
	reply, err := c.cmd.Result()
	if err != nil {
		return nil, c.failed(err)
	}
	return resultOf(reply), nil
}

// failed returns the command's error, marked if an earlier attempt may have been carried out.
func (c *command) failed(err error) error {
	if err != nil && c.unsure {
		return fmt.Errorf("%w (%w)", err, redisconn.ErrUnsure)
	}
	return err
}
