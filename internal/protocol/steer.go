package protocol

import (
	"context"
	"fmt"
	"slices"

	"turnstile/pkg/session"
)

// Steer makes the waiting messages that are to be steered a part of the running
// turn, and answers them. They are acked with it, redelivered with it, or, named
// as End.Untaken, put back where they stood in the line. It looks at the first and the
// last 500 that wait; SteerWaits tells whether there may be more. What a turn has no
// room for, see Config.TurnMessages, waits for a turn of its own.
func (c *Claim) Steer(ctx context.Context) ([]Taken, error) {
	c.mu.Lock()
	cfg := c.consumer.cfg
	known := taskIDs(c.part)
	c.mu.Unlock()
	r, err := c.move(ctx, steerMove, true, "most", cfg.TurnMessages, "room", cfg.TurnBytes, "known", known)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steer = r.is("more")
	var steered []Taken
	for _, message := range r.records("messages", "message") {
		m := take(c.prefix, message, cfg.Limits)
		steered = append(steered, m)
		c.part = append(c.part, part{m.taskID, m.Message.ID, m.fastTask})
	}
	return steered, nil
}

// Dismiss archives one of several messages that the turn was taken for; the turn
// goes on with the others.
func (c *Claim) Dismiss(ctx context.Context, m Taken, status session.Status, why string) error {
	why = text(why)
	outcome, err := marshal(session.Event{Type: session.EventTurnEnded, Status: status, Messages: []string{m.Message.ID}, Error: why})
	if err != nil {
		return fmt.Errorf("encode outcome: %w", err)
	}
	_, err = c.move(ctx, dismissMove, true, "id", m.taskID, "own", m.Message.ID, "why", why, "outcome", outcome)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.part = slices.DeleteFunc(c.part, func(p part) bool { return p.taskID == m.taskID })
	rest := slices.DeleteFunc(c.turn.Messages(), func(t Taken) bool { return t.taskID == m.taskID })
	c.turn.Taken, c.turn.Collected = rest[0], rest[1:]
	return nil
}

// split divides the turn's messages into those that end with it and those that
// it has not taken, which were steered in too late.
func (c *Claim) split(untaken []string) (ending, back []part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range c.part {
		if i > len(c.turn.Collected) && slices.Contains(untaken, p.id) {
			back = append(back, p)
		} else {
			ending = append(ending, p)
		}
	}
	return ending, back
}

func ids(parts []part) []string {
	list := make([]string, len(parts))
	for i, p := range parts {
		list[i] = p.id
	}
	return list
}

func taskIDs(parts []part) []string {
	list := make([]string, len(parts))
	for i, p := range parts {
		list[i] = p.taskID
	}
	return list
}
