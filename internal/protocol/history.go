package protocol

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

const (
	historyEntries = 20   // that /history shows
	historyMost    = 1000 // that it can be asked for
	historyText    = 2000 // bytes of each that it shows
)

func (c *Client) history(ctx context.Context, sessionKey, args string) (string, error) {
	n := historyEntries
	if args != "" {
		n, _ = strconv.Atoi(args)
		if n < 1 || n > historyMost {
			return "", argsError(fmt.Sprintf("Say how many entries, from 1 to %d: /history 50.", historyMost))
		}
	}
	entries, err := c.last(ctx, sessionKey, n)
	if err != nil {
		return "", err
	}
	if len(entries) == 0 {
		return "The conversation has no entry yet.", nil
	}
	var b strings.Builder
	for i, e := range entries {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(line(e))
	}
	return b.String(), nil
}

// last reads the last n entries of the transcript that holds now.
func (c *Client) last(ctx context.Context, sessionKey string, n int) ([]session.Entry, error) {
	k := rediskey.For(sessionKey)
	id, err := c.rdb.HGet(ctx, k.Record(), "session_id").Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read session %s: %w", sessionKey, err)
	}
	return session.ReadTail(ctx, c.rdb, sessionKey, id, n)
}

// line shows an entry to a person.
func line(e session.Entry) string {
	switch {
	case e.Tool != nil && e.Tool.Error != "":
		return fmt.Sprintf("tool: %s failed: %s", e.Tool.Name, shorten(e.Tool.Error))
	case e.Tool != nil && e.Tool.Output == nil:
		return fmt.Sprintf("tool: %s, cut off", e.Tool.Name)
	case e.Tool != nil:
		return "tool: " + e.Tool.Name
	case e.Interrupted:
		return fmt.Sprintf("%s: %s [interrupted]", e.Role, shorten(e.Text))
	}
	return fmt.Sprintf("%s: %s", e.Role, shorten(e.Text))
}

func shorten(text string) string { return cutText(text, historyText) }

func firstLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return shorten(text)
}
