package simulate

import (
	"fmt"
	"strings"
	"time"

	"turnstile"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// follow follows the session's events until the life is over, and goes on where it was after each error.
func (c *chat) follow() {
	h, last := c.life.history, ""
	shown := map[string]bool{}
	for c.life.ctx.Err() == nil {
		var failed error
		for e, err := range c.client.Session(c.key).Events(c.life.ctx, turnstile.EventsAfter(last)) {
			if failed = err; err != nil {
				break
			}
			h.follows(c.key, last, e, shown)
			switch {
			case e.Type == session.EventReset:
				last = ""
			case e.ID != "" && e.Type != session.EventGap:
				last = e.ID
			}
		}
		if c.life.ctx.Err() == nil {
			h.note("%s does not follow any more: %v", c.key, failed)
			sleep(c.life.ctx, time.Second)
		}
	}
}

// follows checks what a follower got behind last. Event ids rise, nothing makes the stream begin anew, and
// the words of a turn, which are all different, come once. shown has those that have come. A gap may have
// the start of the next turn.
func (h *history) follows(key, last string, e session.Event, shown map[string]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case e.Type == session.EventGap:
		h.log("%s has a gap behind %s", key, last)
	case e.Type == session.EventReset:
		h.found("reset", "the stream of %s has lost %s", key, last)
	case last != "" && e.ID != "" && !later(e.ID, last):
		h.found("events", "%s of %s comes after %s", e.ID, key, last)
	}
	switch e.Type {
	case session.EventTurnStarted, session.EventGap:
		clear(shown)
		return
	case string(agent.EventText):
	default:
		return
	}
	for word := range strings.FieldsSeq(e.Text) {
		if shown[word] {
			h.found("shown", "%s of %s comes twice, now in %s", word, key, e.ID)
		}
		shown[word] = true
	}
}

// later compares event ids: MS-N.INDEX.
func later(a, b string) bool {
	var x, y [3]int64
	_, _ = fmt.Sscanf(a, "%d-%d.%d", &x[0], &x[1], &x[2])
	_, _ = fmt.Sscanf(b, "%d-%d.%d", &y[0], &y[1], &y[2])
	for i := range x {
		if x[i] != y[i] {
			return x[i] > y[i]
		}
	}
	return false
}
