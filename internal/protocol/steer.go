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
func (h *Claim) Steer(ctx context.Context) ([]Taken, error) {
	h.mu.Lock()
	c := h.consumer.cfg
	known := taskIDs(h.part)
	h.mu.Unlock()
	r, err := h.move(ctx, steerMove, true, "most", c.TurnMessages, "room", c.TurnBytes, "known", known)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steer = r.is("more")
	var steered []Taken
	for _, message := range r.records("messages", "message") {
		m := take(h.prefix, message, c.Limits)
		steered = append(steered, m)
		h.part = append(h.part, part{m.taskID, m.Message.ID, m.plain})
	}
	return steered, nil
}

// Dismiss archives one of several messages that the turn was taken for; the turn
// goes on with the others.
func (h *Claim) Dismiss(ctx context.Context, m Taken, status session.Status, why string) error {
	why = text(why)
	outcome, err := marshal(session.Event{Type: session.EventTurnEnded, Status: status, Messages: []string{m.Message.ID}, Error: why})
	if err != nil {
		return fmt.Errorf("encode outcome: %w", err)
	}
	_, err = h.move(ctx, dismissMove, true, "id", m.taskID, "own", m.Message.ID, "why", why, "outcome", outcome)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.part = slices.DeleteFunc(h.part, func(p part) bool { return p.taskID == m.taskID })
	rest := slices.DeleteFunc(h.turn.Messages(), func(t Taken) bool { return t.taskID == m.taskID })
	h.turn.Taken, h.turn.Collected = rest[0], rest[1:]
	return nil
}

// split divides the turn's messages into those that end with it and those that
// it has not taken, which were steered in too late.
func (h *Claim) split(untaken []string) (ending, back []part) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, p := range h.part {
		if i > len(h.turn.Collected) && slices.Contains(untaken, p.id) {
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
