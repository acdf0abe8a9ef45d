package protocol

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"turnstile/internal/protocol/scripts"
	"turnstile/pkg/session"
)

// Steer makes waiting messages with the mode steer a part of the running turn, and returns them.
// They are acked or redelivered with it, or go back to their places in the queue if End.Untaken
// names them.
//
// It reads the first and the last 500 waiting messages; SteerWaits reports whether there may be
// more. A message that exceeds Config.TurnMessages or TurnBytes waits for its own turn.
func (c *Claim) Steer(ctx context.Context) ([]Taken, error) {
	c.mu.Lock()
	cfg := c.consumer.cfg
	known := taskIDs(c.part)
	c.mu.Unlock()
	k, o := c.owner()
	r, err := own(ctx, c, true, scripts.Steer, scripts.SteerKeys(k), scripts.SteerArgs{
		Prefixes: scripts.PrefixesOf(c.session), Owner: o, Longest: TaskMost(cfg.Limits), TTL: c.consumer.ttl(),
		Most: int64(cfg.TurnMessages), Room: int64(cfg.TurnBytes), Known: known,
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steer = r.More
	var steered []Taken
	for _, message := range r.Messages {
		m := take(c.prefix, message, cfg.Limits)
		steered = append(steered, m)
		c.part = append(c.part, part{m.taskID, m.Message.ID, m.fastTask})
	}
	return steered, nil
}

// Dismiss archives one of several messages of the turn, with the status, error, code and detail of an
// end. The turn continues with the others.
func (c *Claim) Dismiss(ctx context.Context, m Taken, end End) error {
	why := cmp.Or(text(end.Detail), text(end.Error))
	outcome, err := marshal(session.Event{
		Type: session.EventTurnEnded, Status: end.Status, Messages: []string{m.Message.ID},
		Error: text(end.Error), Code: end.Code, Detail: text(end.Detail),
	})
	if err != nil {
		return fmt.Errorf("encode outcome: %w", err)
	}
	k, o := c.owner()
	_, err = own(ctx, c, true, scripts.Dismiss, scripts.DismissKeys(k), scripts.DismissArgs{
		Prefixes: scripts.PrefixesOf(c.session), Owner: o, Stream: c.consumer.stream, TTL: c.consumer.ttl(),
		ID: m.taskID, Own: m.Message.ID, Why: why, Outcome: outcome,
	})
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

// split divides the turn's messages into those that end with it, and steered ones that the agent
// did not take.
func (c *Claim) split(untaken []string) (ending, back []part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range c.part {
		if i > 0 && slices.Contains(untaken, p.id) {
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
