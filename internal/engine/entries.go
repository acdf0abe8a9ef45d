package engine

import (
	"slices"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// goOn takes over what an earlier run of the turn had made when it was cut off: it
// is this turn's now, which /undo takes out as a whole. The users' words in it are
// those of this turn, or of messages that come back as turns of their own.
func (r *recorder) goOn(entries []session.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		if e.Role != session.RoleUser {
			e.Turn = r.turn.ID
			r.before = append(r.before, e)
		}
	}
	if n := len(r.before); n > 0 {
		r.before[n-1].Interrupted = true
	}
}

// remember makes transcript entries of events. r.mu is held.
func (r *recorder) remember(e agent.Event) {
	last := len(r.made) - 1
	switch e.Type {
	case agent.EventText:
		if e.Text == "" {
			return
		}
		r.active()
		if last >= 0 && r.made[last].Role == session.RoleAssistant {
			r.words.WriteString(e.Text)
			return
		}
		r.made = append(r.made, session.Entry{Role: session.RoleAssistant, Text: e.Text, Turn: r.turn.ID, At: r.now()})
	case agent.EventToolStart:
		r.settle()
		r.made = append(r.made, session.Entry{
			Role: session.RoleTool, Turn: r.turn.ID, At: r.now(),
			Tool: &session.ToolUse{Name: e.Name, CallID: e.CallID, Input: e.Input},
		})
	case agent.EventToolEnd:
		r.active()
		for i := last; i >= 0; i-- {
			if tool := r.made[i].Tool; tool != nil && tool.CallID == e.CallID && tool.Output == nil && tool.Error == "" {
				// A checkpoint may be reading the old one.
				ended := *tool
				ended.Output, ended.Error = e.Output, e.Error
				r.made[i].Tool = &ended
				return
			}
		}
	}
}

// settle puts the words into the last entry: one that grew with each piece of a reply
// would be copied as often. r.mu is held.
func (r *recorder) settle() {
	if r.words.Len() > 0 {
		r.made[len(r.made)-1].Text += r.words.String()
		r.words.Reset()
	}
}

func (r *recorder) userEntry(m session.Message, at int64) session.Entry {
	return session.Entry{
		Role: session.RoleUser, Text: m.Text, Message: m.ID, Meta: m.Meta, Attachments: m.Attachments, Turn: r.turn.ID, At: at,
	}
}

// reply is the result's text, or else the text after the last tool.
func (r *recorder) reply(result agent.Result) string {
	if result.Text != "" {
		return result.Text
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	if n := len(r.made); n > 0 && r.made[n-1].Role == session.RoleAssistant {
		return r.made[n-1].Text
	}
	return ""
}

// entries are what the turn adds to the transcript: the user's words, then what
// the agent did.
func (r *recorder) entries(result agent.Result, interrupted bool) []session.Entry {
	reply := r.reply(result)
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all()
	last := len(all) - 1
	switch {
	case result.Text == "":
	case len(r.made) > 0 && all[last].Role == session.RoleAssistant:
		all[last].Text = reply
	default:
		all = append(all, session.Entry{Role: session.RoleAssistant, Text: reply, Turn: r.turn.ID, At: r.now()})
	}
	all[len(all)-1].Interrupted = all[len(all)-1].Interrupted || interrupted
	all[len(all)-1].Usage = r.usage
	return all
}

// soFar are the entries of a turn that is cut off, or nil where the agent has not
// done anything yet.
func (r *recorder) soFar() []session.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.made) == 0 {
		return nil // what there was before is still stored
	}
	all := r.all()
	all[len(all)-1].Interrupted, all[len(all)-1].Usage = true, r.usage
	return all
}

// inherited are the entries that the turn was to go on from, made by an earlier
// run of it.
func (r *recorder) inherited() []session.Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.before)
}

// all copies the entries so far. r.mu is held.
func (r *recorder) all() []session.Entry {
	r.settle()
	all := make([]session.Entry, 0, len(r.turn.Collected)+len(r.before)+len(r.made)+2)
	for _, m := range r.turn.Messages() {
		all = append(all, r.userEntry(m.Message, r.turn.StartedAt.UnixMilli()))
	}
	return append(append(all, r.before...), r.made...)
}
