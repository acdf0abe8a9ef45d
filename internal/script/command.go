package script

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// command is an EVALSHA or EVAL, and the calls that share it; calls is nil if it is one call's
// own.
type command struct {
	script *Script
	cmd    *redis.Cmd
	calls  []*Call
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

// unknown reports whether the server does not know the script.
func (c *command) unknown() bool {
	err := c.cmd.Err()
	return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") // HasErrorPrefix allocates, so no error is checked first
}

// again makes the command anew: in full, with the script's text, or by the hash.
func (c *command) again(ctx context.Context, full bool) {
	words := append([]any(nil), c.cmd.Args()...)
	if words[0], words[1] = "evalsha", c.script.load().hash; full {
		words[0], words[1] = "eval", c.script.load().source
	}
	c.cmd = newCmd(ctx, words)
}

// alone sends the command, and sends it in full if the server does not know the script.
func (c *command) alone(ctx context.Context, client Client) {
	_ = client.Process(ctx, c.cmd) // the command has the error
	if c.unknown() {
		c.again(ctx, true)
		_ = client.Process(ctx, c.cmd)
	}
}

// sendUnknown sends again the commands whose server did not know their script. The first command
// of each script is sent in full, which teaches its server the script, and the others by hash. On
// a Redis Cluster the others may go to another server that does not know the script either: the
// next round sends one of those in full.
func sendUnknown(ctx context.Context, client redis.UniversalClient, commands []command) {
	full := make(map[*command]bool)
	for {
		var rest []*command
		inFull := map[*Script]bool{}
		for i := range commands {
			if c := &commands[i]; c.unknown() && !full[c] {
				full[c] = !inFull[c.script]
				inFull[c.script] = true
				c.again(ctx, full[c])
				rest = append(rest, c)
			}
		}
		switch len(rest) {
		case 0:
			return
		case 1:
			_ = client.Process(ctx, rest[0].cmd)
			continue
		}
		_, _ = client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, c := range rest {
				_ = p.Process(ctx, c.cmd)
			}
			return nil
		})
	}
}

// Client is a Redis, as go-redis' clients and pipelines are.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Run calls the script once.
func (s *Script) Run(ctx context.Context, client Client, keys []string, args ...any) (Result, error) {
	c := newCommand(ctx, s, keys, args)
	c.alone(ctx, client)
	return c.result()
}

// Full adds the call to a pipeline, with the script's text. It is for a pipeline whose commands
// depend on their order: a NOSCRIPT in the middle could not be repaired.
func (s *Script) Full(ctx context.Context, p redis.Pipeliner, keys []string, args ...any) {
	c := newCommand(ctx, s, keys, args)
	c.again(ctx, true)
	_ = p.Process(ctx, c.cmd)
}

func (c *command) result() (Result, error) {
	reply, err := c.cmd.Result()
	if err != nil {
		return nil, err
	}
	return resultOf(reply), nil
}
