package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"turnstile/internal/text/frame"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// unsent is the result of a client's function for which the client has sent none.
const unsent = "no result was sent"

// joined is a transcript with what clients brought, in its place: the results of their functions in the
// entries of the calls, and what was said elsewhere before a message in front of it.
type joined struct {
	entries  []session.Entry
	open     map[string][]int           // the places of the calls that wait for their results, by their IDs
	given    map[string]json.RawMessage // the results since the user's last words
	resolved int                        // the first call with a result from the turn's own messages
}

func newJoined() joined {
	return joined{open: map[string][]int{}, given: map[string]json.RawMessage{}, resolved: math.MaxInt}
}

// join adds an entry. A result that no open call waits for becomes a part of its text. Once the user has
// said something else, no call waits any more.
func (j *joined) join(e session.Entry) session.Entry {
	if b := e.Brought; b != nil {
		for _, past := range b.Past {
			if past.Role == session.RoleUser {
				past.Meta = e.Meta // the same sender's
			}
			past.Turn, past.Sent = e.Turn, nil // what a server has sent, no client can say
			j.add(past)
		}
		for _, r := range b.Results {
			waiting, output := j.open[r.CallID], quoted(r.Output)
			if len(waiting) == 0 {
				if bytes.Equal(j.given[r.CallID], output) {
					continue // clients send all results of a row of calls
				}
				e.Text = joinedText(e.Text, fmt.Sprintf("[A result was sent for the call %s, which is not open: %s]", r.CallID, r.Output))
				continue
			}
			i := waiting[0]
			use := *j.entries[i].Tool
			use.Output = output
			j.entries[i].Tool, j.entries[i].Attachments, j.resolved = &use, r.Attachments, min(j.resolved, i)
			j.open[r.CallID], j.given[r.CallID] = waiting[1:], output
		}
	}
	if e.Role == session.RoleUser && said(e) {
		clear(j.open)
		clear(j.given)
	}
	return e
}

func (j *joined) add(e session.Entry) {
	if e = j.join(e); e.Role == session.RoleUser && !said(e) {
		return
	}
	switch use := e.Tool; {
	case use == nil || !use.Client:
	case use.Output == nil:
		j.open[use.CallID] = append(j.open[use.CallID], len(j.entries))
	default:
		j.given[use.CallID] = use.Output
	}
	j.entries = append(j.entries, e)
}

// said reports whether a user's entry has words or files.
func said(e session.Entry) bool { return e.Text != "" || len(e.Attachments) > 0 }

// bring joins the turn's history and its messages. What the messages bring, and the calls whose results they have, are
// sent however long the history is: the client knows nothing of this agent's limit.
func (r *run) bring() {
	j := newJoined()
	for _, e := range r.turn.History {
		j.add(e)
	}
	j.resolved = math.MaxInt
	before := len(j.entries)
	var own []session.Entry
	for _, m := range r.turn.Messages {
		e := session.Entry{Role: session.RoleUser, Text: m.Text, Meta: m.Meta, Attachments: m.Attachments}
		if m.Request != nil {
			r.asks, e.Brought = m.Request, &m.Request.Brought
		}
		if e = j.join(e); said(e) {
			own = append(own, e)
		}
	}
	from := min(j.resolved, len(j.entries))
	if len(own) == 0 && from == len(j.entries) && from > 0 {
		from-- // the model goes on from what was said last
	}
	if from < len(j.entries) {
		for from > 0 && j.entries[from-1].Role == session.RoleTool {
			from--
		}
		if from > 0 && j.entries[from-1].Role == session.RoleAssistant {
			from--
		}
	}
	before = min(before, from)
	r.history = blocks(j.entries[:before], r.who, r.ids)
	past := blocks(j.entries[before:from], r.who, r.ids)
	r.history, r.brought = append(r.history, past...), len(past)
	for _, b := range blocks(append(slices.Clip(j.entries[from:]), own...), r.who, r.ids) {
		r.present = append(r.present, b.messages...)
	}
}

// note puts the note before the user's words, as all agents get it: it may repeat words of users, which must not speak
// as the system, and some servers refuse a system message that is not the first.
func (r *run) note(note string) {
	if note == "" {
		return
	}
	first := slices.IndexFunc(r.present, func(m message) bool { return m.role == roleUser })
	if first < 0 { // the turn has only results of the client's functions
		r.present = append([]message{{role: roleUser, text: note}}, r.present...)
		return
	}
	m := &r.present[first]
	m.text = joinedText(note, frame.Notes(m.text))
}

// instruct adds to the turn's requests what the client's program asks for.
func (r *run) instruct() error {
	a := r.asks
	if a == nil {
		return nil
	}
	q := &r.request
	for _, f := range a.Functions {
		if _, taken := r.tools[f.Name]; taken {
			err := fmt.Errorf("the request has a function with the name %s, which is a tool of this agent: give it another name", f.Name)
			return agent.ForUser(err, err.Error())
		}
		o := newOffer(f.Name, f.Description, Tool{Parameters: f.Parameters}.schema())
		o.strict = f.Strict
		q.tools = append(slices.Clip(q.tools), o)
		r.fixed += o.tokens(f.Parameters)
		r.functions[f.Name] = true
	}
	q.system = joinedText(q.system, a.Instructions)
	r.fixed += message{role: roleSystem, text: a.Instructions}.tokens()
	q.maxTokens, q.temperature = cmp.Or(a.MaxTokens, q.maxTokens), cmp.Or(a.Temperature, q.temperature)
	q.topP, q.stop, q.format = a.TopP, a.Stop, a.Format
	if len(q.tools) > 0 {
		q.choice, q.parallel = a.ToolChoice, a.Parallel
	}
	if err := r.provider.unfit(*q); err != nil {
		return agent.ForUser(err, err.Error())
	}
	return nil
}

// hand gives the client the calls of its functions. They end the turn. parallel: the reply had calls before them.
func (r *run) hand(calls []toolCall, parallel bool) {
	for i, c := range calls {
		r.turn.Emit(agent.Event{Type: session.EventToolStart, Name: c.name, CallID: c.id, Input: input(c.raw), Client: true, Parallel: parallel || i > 0, Sent: c.sent})
	}
}

// parted returns how many of a response's calls are of the agent's own tools, and those of the client's functions.
func (r *run) parted(calls []toolCall) (own int, clients []toolCall) {
	for _, c := range calls {
		if r.functions[c.name] {
			clients = append(clients, c)
		}
	}
	return len(calls) - len(clients), clients
}

func joinedText(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}
