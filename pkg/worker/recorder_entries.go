package worker

import (
	"strings"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/wire"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// entries are a turn's entries so far. The recorder's lock guards them.
type entries struct {
	turn   *protocol.ClaimedTurn
	before []session.Entry  // of an earlier run of the turn
	made   []session.Entry  // of the assistant, tools and steered messages
	open   map[string][]int // places in made of the tools that have not ended, by call ID
	words  strings.Builder  // the end of the last entry's text, not added to it yet
	usage  *session.Usage   // nil: the agent has not reported it
}

// inherit takes over the entries of an earlier, interrupted run of the turn. They belong to this
// turn now, so that /undo removes them with it. Users' entries are left out: they are of this
// turn's messages, or of messages that run as separate turns.
func (s *entries) inherit(partial []session.Entry) {
	for _, e := range partial {
		if e.Role != session.RoleUser {
			e.Turn = s.turn.ID
			s.before = append(s.before, e)
		}
	}
	if n := len(s.before); n > 0 {
		s.before[n-1].Interrupted = true
	}
}

// add adds an event of the agent, and returns its importance to a checkpoint.
func (s *entries) add(e agent.Event, at int64) activity {
	last := len(s.made) - 1
	switch e.Type {
	case session.EventText:
		switch {
		case e.Text == "":
			return nothing
		case last >= 0 && s.made[last].Role == session.RoleAssistant:
			s.words.WriteString(e.Text)
		default:
			s.made = append(s.made, session.Entry{Role: session.RoleAssistant, Text: e.Text, Turn: s.turn.ID, At: atMS(at)})
		}
		return someText
	case session.EventToolStart:
		s.flushWords()
		s.made = append(s.made, session.Entry{
			Role: session.RoleTool, Turn: s.turn.ID, At: atMS(at),
			Tool: &session.ToolUse{Name: e.Name, CallID: e.CallID, Input: e.Input},
		})
		if s.open == nil {
			s.open = map[string][]int{}
		}
		s.open[e.CallID] = append(s.open[e.CallID], len(s.made)-1)
	case session.EventToolEnd:
		if open := s.open[e.CallID]; len(open) > 0 {
			i := open[len(open)-1]
			ended := *s.made[i].Tool // a checkpoint may be reading the old value
			ended.Output, ended.Error = e.Output, e.Error
			s.made[i].Tool = &ended
			if ended.Output != nil || ended.Error != "" {
				s.open[e.CallID] = open[:len(open)-1]
			}
		}
		return toolEnded
	case session.EventUsage:
		u := *e.Usage
		if s.usage != nil {
			u = s.usage.Plus(u)
		}
		s.usage = &u
	}
	return nothing
}

// decided adds a decision about a tool that has not ended. One about anything else is only an event.
func (s *entries) decided(callID string, d protocol.Decided) {
	if open := s.open[callID]; len(open) > 0 {
		i := open[len(open)-1]
		use := *s.made[i].Tool // a checkpoint may be reading the old value
		use.Decision, use.By = d.Decision, d.By
		s.made[i].Tool = &use
	}
}

// addUser adds a message that was steered in.
func (s *entries) addUser(m wire.Message, at int64) {
	s.flushWords()
	s.made = append(s.made, s.userEntry(m, at))
}

// flushWords appends words to the last entry. Appending each piece of a reply to it directly
// would copy the text every time.
func (s *entries) flushWords() {
	if s.words.Len() > 0 {
		s.made[len(s.made)-1].Text += s.words.String()
		s.words.Reset()
	}
}

func (s *entries) userEntry(m wire.Message, at int64) session.Entry {
	return session.Entry{
		Role: session.RoleUser, Text: m.Text, Message: m.ID, Meta: m.Meta, Attachments: m.Attachments, Turn: s.turn.ID, At: atMS(at),
	}
}

// reply is the agent's text after its last tool.
func (s *entries) reply() string {
	s.flushWords()
	if n := len(s.made); n > 0 && s.made[n-1].Role == session.RoleAssistant {
		return s.made[n-1].Text
	}
	return ""
}

// all copies the entries: the users' messages, then the agent's. reply is the agent's final text;
// unless empty, it replaces the text after the last tool. The last entry has the turn's usage, and
// whether the turn was interrupted.
func (s *entries) all(reply string, at int64, interrupted bool) []session.Entry {
	s.flushWords()
	all := make([]session.Entry, 0, len(s.turn.Collected)+len(s.before)+len(s.made)+2)
	for _, m := range s.turn.Messages() {
		all = append(all, s.userEntry(m.Message, s.turn.StartedAt.UnixMilli()))
	}
	all = append(append(all, s.before...), s.made...)
	last := &all[len(all)-1]
	switch {
	case reply == "":
	case len(s.made) > 0 && last.Role == session.RoleAssistant:
		last.Text = reply
	default:
		all = append(all, session.Entry{Role: session.RoleAssistant, Text: reply, Turn: s.turn.ID, At: atMS(at)})
		last = &all[len(all)-1]
	}
	last.Interrupted = last.Interrupted || interrupted
	last.Usage = s.usage
	return all
}

func atMS(ms int64) session.Time { return session.Time{Time: time.UnixMilli(ms)} }
