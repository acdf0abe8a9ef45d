package protocol

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// Configure stores a session's queue settings. Zero settings remove them. by is who does it, "": unknown.
// lua/configure.lua.
func Configure(ctx context.Context, rdb script.Client, sessionKey, by string, s session.QueueSettings) error {
	var text string
	if s != (session.QueueSettings{}) {
		var err error
		if text, err = marshal(s); err != nil {
			return fmt.Errorf("encode settings: %w", err)
		}
	}
	return configure(ctx, rdb, sessionKey, scripts.ConfigureArgs{By: cutBy(by), Setting: "queue", Value: text})
}

// SetReplyTo stores the destination of a session's outcomes; "" removes it. lua/configure.lua.
func SetReplyTo(ctx context.Context, rdb script.Client, sessionKey, by, destination string) error {
	return configure(ctx, rdb, sessionKey, scripts.ConfigureArgs{By: cutBy(by), Setting: "reply_to", Value: destination})
}

func configure(ctx context.Context, rdb script.Client, sessionKey string, args scripts.ConfigureArgs) error {
	_, err := scripts.Configure.Run(ctx, rdb, scripts.ConfigureKeys(scripts.KeysOf(sessionKey, "", time.Now())), args)
	return err
}

// MaxTitle is the longest title, in characters.
const MaxTitle = 200

// CleanTitle makes a title from an agent's proposal: one line, trimmed, truncated to MaxTitle
// characters. The result may be empty.
func CleanTitle(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	n := 0
	for i := range text {
		if n == MaxTitle {
			return strings.TrimRight(text[:i], " ")
		}
		n++
	}
	return text
}

// ValidateTitle checks a user's title: one line of at most MaxTitle characters; empty means none. The error
// wraps session.ErrInvalid.
func ValidateTitle(title string) error {
	switch n := utf8.RuneCountInString(title); {
	case n > MaxTitle:
		return fmt.Errorf("%w title: it has %d characters, at most %d are allowed", session.ErrInvalid, n, MaxTitle)
	case !utf8.ValidString(title) || strings.ContainsAny(title, "\r\n"):
		return fmt.Errorf("%w title: write it as one line of UTF-8", session.ErrInvalid)
	}
	return nil
}

// SetTitle sets the user's title of the current transcript; "" removes it. lua/title.lua.
func SetTitle(ctx context.Context, rdb script.Client, sessionKey, title string) error {
	_, err := scripts.Title.Run(ctx, rdb, scripts.TitleKeys(scripts.KeysOf(sessionKey, "", time.Now())), scripts.TitleArgs{Owner: scripts.Owner{}, Title: title})
	return err
}

// Title proposes a title for the current transcript. It does not replace a user's title.
func (c *Claim) Title(ctx context.Context, title string) error {
	if err := c.lease.Held(); err != nil {
		return fmt.Errorf("title of %s: %w", c.session, err)
	}
	k, o := c.owner()
	_, err := c.consumer.moves.Run(ctx, scripts.Title.Script, scripts.TitleKeys(k), scripts.TitleArgs{Owner: o, Title: text(title)}.Words()...)
	if err != nil {
		return fmt.Errorf("title of %s: %w", c.session, err)
	}
	return nil
}
