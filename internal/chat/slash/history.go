package slash

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
)

const (
	historyEntries = 20   // shown by /history
	historyMost    = 1000 // the most that a user can request
	historyText    = 2000 // bytes shown of each entry
)

func history(ctx context.Context, c Operations, args string) (string, error) {
	n := historyEntries
	if args != "" {
		n, _ = strconv.Atoi(args)
		if n < 1 || n > historyMost {
			return "", argsError(fmt.Sprintf("Write how many entries, from 1 to %d: /history 50.", historyMost))
		}
	}
	entries, err := c.Tail(ctx, n)
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
		if e.Ended != nil {
			b.WriteString(" [" + shorten(e.Ended.String()) + "]")
		}
	}
	return b.String(), nil
}

// line formats an entry for a person.
func line(e session.Entry) string {
	switch {
	case e.Tool != nil && e.Tool.Error != "":
		return fmt.Sprintf("tool: %s failed: %s", e.Tool.Name, shorten(e.Tool.Error))
	case e.Tool != nil && e.Tool.Client:
		return fmt.Sprintf("tool: %s, of the client's program", e.Tool.Name)
	case e.Brought != nil && e.Text == "" && len(e.Brought.Results) > 0:
		return fmt.Sprintf("%s: results of %d calls", e.Role, len(e.Brought.Results))
	case e.Brought != nil && e.Text == "":
		return fmt.Sprintf("%s: what was said before, %d entries", e.Role, len(e.Brought.Past))
	case e.Tool != nil && e.Tool.Output == nil:
		return fmt.Sprintf("tool: %s, interrupted", e.Tool.Name)
	case e.Tool != nil:
		return "tool: " + e.Tool.Name
	case e.Interrupted && e.Ended == nil:
		return fmt.Sprintf("%s: %s [interrupted]", e.Role, shorten(e.Text))
	}
	return fmt.Sprintf("%s: %s", e.Role, shorten(e.Text))
}

func shorten(text string) string { return protocol.CutText(text, historyText) }

func firstLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return shorten(text)
}
