package model

import (
	"context"
	"encoding/json"
	"slices"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// Servers charge less for a request that begins as an earlier one did. So the history is not cut a little in each turn:
// when it no longer fits, much of it goes at once, and what is left begins at the same place for many turns.

// defaultImageBytes is that of Config.ImageBytes: some servers refuse requests of more than 8 MB.
const defaultImageBytes = 4 << 20

// place is a block of the history: the nth of a turn, from 1. It stays the same when older turns are gone.
type place struct {
	Turn string `json:"turn"`
	Nth  int    `json:"nth"`
}

// window says what of the history is sent. It is stored as the agent's state for the session's next turns.
type window struct {
	Agent   string `json:"agent"`
	Left    place  `json:"left,omitzero"`     // the last block that is left out
	Named   place  `json:"named,omitzero"`    // the last block of which the images are only named
	Summary string `json:"summary,omitempty"` // of what is left out

	// What a turn has left out after a refusal, for those that follow: theirs would be refused, too.
	Refused place  `json:"refused,omitzero"`
	In      string `json:"in,omitempty"` // that turn's first message
}

// theAgent tells the states of this package from those of other agents.
const theAgent = "model"

// look decides what of the history the turn's requests have. It is the same in every run of the turn: it depends neither
// on the note, which only the first run is given, nor on what the turn does.
func (r *run) look(ctx context.Context) error {
	if json.Unmarshal(r.turn.State, &r.window) != nil || r.window.Agent != theAgent {
		r.window = window{Agent: theAgent}
	}
	done, err := r.recallSummary(ctx)
	if err != nil {
		return err
	}
	left := r.move()
	if len(left) > 0 {
		r.log.Debug("the history is too long, its oldest part is left out",
			"entries_left_out", len(left), "kept", len(r.history), "context_tokens", r.config.ContextTokens)
		if r.config.Compact && !done {
			if err := r.compact(ctx, left); err != nil {
				return err
			}
		}
	}
	if r.window.Left != (place{}) || r.window.Named != (place{}) {
		r.remember()
	}
	return nil
}

// remember stores the window for the session's next turns.
func (r *run) remember() {
	state, _ := encode(r.window) // texts and numbers
	r.turn.Emit(agent.Event{Type: session.EventState, Data: state})
}

// leave leaves out the history up to a place. The next turn moves the window there, which sums up what is left out. Another
// run of the turn, or one with less context, may not have the place any more.
func (r *run) leave(to place) {
	if n := after(r.history[:len(r.history)-r.brought], to); n > 0 {
		r.history = r.history[n:]
		r.window.Refused, r.window.In = to, r.turn.Messages[0].ID
	}
	r.shrunk = to
}

// move moves the window if the history has outgrown it, and leaves the rest in r.history. It returns the blocks that the
// last turn's requests had, and this one's have not.
func (r *run) move() (left []block) {
	all, own := r.history, len(r.history)-r.brought // what the message brought always stays
	from := after(all[:own], r.window.Left)
	named := max(from, after(all[:own], r.window.Named))
	named = cut(all[:own], named, block.imageBytes, r.config.ImageBytes, r.config.ImageBytes*7/10)
	if named > from {
		r.window.Named = all[named-1].place
		for i := from; i < named; i++ {
			all[i] = all[i].blind()
		}
	}
	room := r.config.ContextTokens - r.fixed - newBlock(r.present...).tokens - size(all[own:], block.size)
	if r.config.Compact {
		room -= r.config.ContextTokens / summaryShare
	}
	// A long message must not cost the session all of its past: half of what fits beside it stays.
	start := from
	if in := r.window.In; in == "" || in != r.turn.Messages[0].ID { // else an earlier run of this turn has begun with all
		start = max(from, after(all[:own], r.window.Refused))
		r.window.Refused, r.window.In = place{}, ""
	}
	to := cut(all[:own], start, block.size, room, max(room-r.config.ContextTokens*3/10, room/2))
	if to > from {
		r.window.Left = all[to-1].place
	}
	r.history = all[to:]
	return all[from:to]
}

// cut returns from where on blocks are kept: from, if they have at most most, else so that they have at most least.
func cut(all []block, from int, of func(block) int, most, least int) int {
	sum := size(all[from:], of)
	if sum <= most {
		return from
	}
	for ; from < len(all) && sum > least; from++ {
		sum -= of(all[from])
	}
	return from
}

func size(all []block, of func(block) int) (sum int) {
	for _, b := range all {
		sum += of(b)
	}
	return sum
}

// after returns the index after a place, or 0 if the history does not have it: then that is older.
func after(all []block, p place) int {
	return slices.IndexFunc(all, func(b block) bool { return b.place == p }) + 1
}

func (b block) size() int { return b.tokens }

// imageBytes is the size of a block's images in a request.
func (b block) imageBytes() (n int) {
	for _, m := range b.messages {
		for _, i := range m.images {
			n += len(i.url)
		}
	}
	return n
}

// blind is the block with its images only named.
func (b block) blind() block {
	messages := make([]message, len(b.messages))
	for i, m := range b.messages {
		messages[i] = m.blind()
	}
	named := newBlock(messages...)
	named.place = b.place
	return named
}
