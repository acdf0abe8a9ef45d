package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// stored is a response in the turn's journal: all that the rest of the turn needs. With it the next request
// is the same, byte for byte, in every run.
type stored struct {
	Text   string       `json:"text,omitempty"`
	Fields fields       `json:"fields,omitempty"`
	Calls  []storedCall `json:"calls,omitempty"`
	Finish string       `json:"finish"`

	// What its request had, and a later run cannot know.
	Note   string   `json:"note,omitempty"`   // the turn's, in its first response
	Steers int      `json:"steers,omitempty"` // how many had been taken
	Blind  bool     `json:"blind,omitempty"`  // the history's images were named only
	Shrunk place    `json:"shrunk,omitzero"`  // where the history began after a refusal
	Told   []string `json:"told,omitempty"`   // texts for the model, of replies that the server could not read

	Demands demands `json:"demands,omitzero"`
}

// storedCall has the ID as it was sent, which is unique, and the rest as received.
type storedCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Fields    fields `json:"fields,omitempty"`
}

// respond returns the turn's n-th response, from the journal or from the model. last: nothing follows it.
func (r *run) respond(ctx context.Context, n int) (reply *completion, last bool, err error) {
	r.mended = mendings{}
	s := agent.StepSpec{Key: fmt.Sprintf("response:%d", n), Safe: true, Hidden: true}
	record, err := r.turn.StartStep(ctx, s)
	if err != nil {
		return nil, false, err
	}
	if record.State == agent.StepDone {
		if reply, err = r.recall(record); err != nil {
			return nil, false, fmt.Errorf("step %s of an earlier run: %w", s.Key, err)
		}
		return reply, r.isLast(reply), nil
	}
	r.rejoin(r.taken + len(r.kept))
	if n > 1 {
		r.steer()
	}
	if reply, err = r.complete(ctx); err == nil && reply.empty() && r.isLast(reply) {
		r.log.Debug("the model's reply is empty: it is asked again")
		reply, err = r.complete(ctx)
		if err == nil && reply.empty() && r.isLast(reply) {
			err = errors.New("the model ended without a reply, twice")
		}
	}
	if err != nil {
		return nil, false, err
	}
	if r.mended.shrunk { // and it has helped: a message that is too long by itself must not cost the history
		r.remember()
	}
	if sent := r.sent(reply.fields, nil); sent != nil && len(reply.calls) == 0 && reply.text.Len() > 0 {
		r.turn.Emit(agent.Event{Type: session.EventText, Sent: sent})
	}
	if r.isLast(reply) {
		return reply, true, nil // the turn's end stores it, so a turn of one response needs no journal
	}
	output, err := encode(r.store(n, reply))
	if err != nil {
		return nil, false, err
	}
	return reply, false, r.turn.EndStep(ctx, s, agent.StepEnd{Output: output})
}

// isLast reports whether nothing follows a reply.
func (r *run) isLast(reply *completion) bool {
	own, clients := r.parted(reply.calls)
	return own == 0 && (len(clients) > 0 || len(r.kept) == 0 && !r.steered())
}

func (r *run) store(n int, reply *completion) stored {
	s := stored{Text: reply.text.String(), Fields: reply.fields, Finish: reply.finish, Steers: r.taken, Blind: r.blinded, Shrunk: r.shrunk, Told: r.mended.told, Demands: r.request.demands}
	if n == 1 {
		s.Note = r.turn.Note
	}
	for _, c := range reply.calls {
		s.Calls = append(s.Calls, storedCall{c.id, c.name, string(c.raw), c.fields})
	}
	return s
}

// recall returns a response of an earlier run, and brings the turn to where it was then.
func (r *run) recall(record agent.StepRecord) (*completion, error) {
	if record.Error != "" {
		return nil, errors.New(record.Error)
	}
	var s stored
	if err := json.Unmarshal(record.Output, &s); err != nil {
		return nil, fmt.Errorf("%w: its response cannot be read: %w", agent.ErrStep, err)
	}
	if r.turn.Note == "" {
		r.note(s.Note)
	}
	if s.Blind {
		r.blind()
	}
	if s.Shrunk != (place{}) {
		r.leave(s.Shrunk)
		r.remember()
	}
	r.request.demands = s.Demands
	r.rejoin(s.Steers)
	for _, text := range s.Told {
		r.tell(text)
	}
	reply := &completion{finish: s.Finish, fields: s.Fields}
	reply.text.WriteString(s.Text)
	for _, c := range s.Calls {
		r.ids.used[c.ID] = true
		reply.calls = append(reply.calls, toolCall{id: c.ID, name: c.Name, args: fittingArgs([]byte(c.Arguments)), raw: []byte(c.Arguments), fields: c.Fields})
	}
	r.keep(reply)
	return reply, nil
}

// rejoin adds steers that earlier runs have accepted, until the turn has n.
func (r *run) rejoin(n int) {
	for ; r.taken < n && len(r.kept) > 0; r.kept = r.kept[1:] {
		e := r.kept[0]
		r.join(e.Text, e.Meta, e.Attachments)
	}
}

// steer takes the steers that have arrived.
func (r *run) steer() {
	for ; r.steered(); r.arrived = nil {
		m := r.arrived.Message
		r.join(m.Text, m.Meta, m.Attachments)
		r.arrived.Accept()
	}
}

// steered reports whether a steer has arrived that is not taken.
func (r *run) steered() bool {
	if r.arrived == nil {
		select {
		case s, ok := <-r.turn.Steers():
			if ok {
				r.arrived = &s
			}
		default:
		}
	}
	return r.arrived != nil
}

func (r *run) join(text string, meta map[string]string, attachments []session.Attachment) {
	r.present = append(r.present, userMessage(r.who, text, meta, attachments))
	r.taken++
}

// steers are the users' entries of earlier runs.
func steers(kept []session.Entry) (users []session.Entry) {
	for _, e := range kept {
		if e.Role == session.RoleUser {
			users = append(users, e)
		}
	}
	return users
}
