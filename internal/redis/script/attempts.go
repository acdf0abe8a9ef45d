package script

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/redisconn"
)

// The bounds of repeats are go-redis' own defaults.
const (
	attempts = 4
	minPause = 8 * time.Millisecond
	maxPause = 512 * time.Millisecond
)

// once is a command that go-redis must not repeat, whatever the client's options: if a first
// attempt is carried out, its reply lost, and the second refused, go-redis reports only the
// refusal.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// alone sends the command until it has a result or a lasting error.
func (c *command) alone(ctx context.Context, client Client) {
	for attempt := 1; ; {
		_ = client.Process(ctx, once{c.cmd}) // the command has the error
		switch {
		case c.unknown():
			c.again(ctx, true)
		case c.mayPass() && attempt < attempts && pause(ctx, attempt):
			c.repeat()
			attempt++
		default:
			return
		}
	}
}

// sendAgain repeats, in one round trip, the commands and others that failed in the last one and may
// succeed. attempts counts only rounds after an error that may pass.
func sendAgain(ctx context.Context, client redis.UniversalClient, others []redis.Cmder, commands []command) {
	for attempt := 1; len(commands) > 0; { // go-redis repeats the others if they are alone
		passing := attempt < attempts && (slices.ContainsFunc(others, mayPass) || slices.ContainsFunc(commands, (command).mayPass))
		if passing && !pause(ctx, attempt) {
			passing, attempt = false, attempts
		} else if passing {
			attempt++
		}
		rest := renew(ctx, others, commands, passing)
		switch len(rest) {
		case 0:
			return
		case 1:
			_ = client.Process(ctx, rest[0])
			continue
		}
		_, _ = client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, cmd := range rest {
				_ = p.Process(ctx, cmd)
			}
			return nil
		})
	}
}

// renew prepares commands to be sent again: those with an unknown script and, if passing, those
// that failed with an error that may pass.
//
// The first command of each unknown script is sent in full, which teaches its server the script, and
// the others by hash. On a Redis Cluster the others may go to another server that does not know the
// script either: the next round sends one of those in full.
func renew(ctx context.Context, others []redis.Cmder, commands []command, passing bool) (rest []redis.Cmder) {
	for _, cmd := range others {
		if passing && mayPass(cmd) {
			cmd.SetErr(nil)
			rest = append(rest, cmd)
		}
	}
	inFull := map[*Script]bool{}
	for i := range commands {
		switch c := &commands[i]; {
		case c.unknown():
			c.again(ctx, !inFull[c.script])
			inFull[c.script] = true
		case passing && c.mayPass():
			c.repeat()
		default:
			continue
		}
		rest = append(rest, once{commands[i].cmd})
	}
	return rest
}

// unknown reports whether the server did not know the script, and was sent only its hash.
func (c *command) unknown() bool {
	err := c.cmd.Err()
	return err != nil && !c.full && redis.HasErrorPrefix(err, "NOSCRIPT") // HasErrorPrefix allocates, so no error is checked first
}

func (c command) mayPass() bool { return mayPass(c.cmd) }

func mayPass(cmd redis.Cmder) bool {
	err := cmd.Err()
	return err != nil && redisconn.MayPass(err)
}

// repeat prepares the command for another attempt.
func (c *command) repeat() {
	c.unsure = c.unsure || !redisconn.Unchanged(c.cmd.Err())
	c.cmd.SetErr(nil)
}

// pause waits before another attempt. It returns false if ctx ended.
func pause(ctx context.Context, attempt int) bool {
	timer := time.NewTimer(min(minPause+rand.N(minPause<<attempt), maxPause)) //nolint:gosec // no secret: math/rand is enough
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
