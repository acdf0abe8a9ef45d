//go:build linux

package kills_test

import (
	"context"
	"errors"
	"strings"

	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// read returns what Turnstile says of the messages of a session.
func (w *world) read(c *chat) (turns []turn) {
	turns = make([]turn, len(c.messages))
	known := map[string]*turn{}
	for i, id := range c.messages {
		end := c.outcomes[id]
		turns[i] = turn{message: id, status: end.Status, reply: end.Reply, uses: map[string][]session.ToolUse{}, notices: map[string]int{}}
		known[id] = &turns[i]
	}
	entries, err := actors.Transcript(w.Context(), c.session, c.outcomes[c.messages[0]].TranscriptID)
	expect.OK(w, err)
	var of *turn
	for _, e := range entries {
		switch {
		case e.Role == session.RoleUser:
			if of = known[e.Message]; of != nil {
				of.said++
			}
		case of != nil && e.Tool != nil:
			of.uses[e.Tool.Name] = append(of.uses[e.Tool.Name], *e.Tool)
		}
	}
	w.listen(c, known)
	return turns
}

// errHeard: the last message has ended, and with it the stream.
var errHeard = errors.New("heard")

// listen counts events of the messages' turns.
func (w *world) listen(c *chat, known map[string]*turn) {
	ctx, cancel := context.WithTimeout(w.Context(), expect.Patience)
	defer cancel()
	runs := map[string]*turn{}
	left := len(c.messages)
	err := actors.Events(ctx, c.session, "", func(e session.Event) error {
		of := runs[e.Turn]
		switch e.Type {
		case session.EventTurnStarted:
			if of = known[e.Messages[0]]; of != nil {
				of.runs++
				runs[e.Turn] = of
			}
		case session.EventNotice:
			if name, _, found := strings.Cut(e.Text, " was started before an interruption"); found && of != nil {
				of.notices[name]++
			}
		case session.EventTurnEnded:
			if of != nil {
				of.ends++
			}
			if left--; left == 0 {
				return errHeard
			}
		}
		return nil
	})
	if !errors.Is(err, errHeard) {
		w.Errorf("the events of %s: %v", c.messages[0], err)
	}
}
