package engine

import (
	"strings"

	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// entries are what a turn adds to its transcript, so far. It has no lock of its own.
type entries struct {
	turn   *protocol.Turn
	before []session.Entry // what an earlier run of the turn has made
	made   []session.Entry // assistant's, tools' and steered users'
	words  strings.Builder // text of the last of them that is not in it yet
	usage  *session.Usage  // nil: the agent does not tell
}

// resume takes over what an earlier run of the turn had made when it was interrupted: it
// is this turn's now, which /undo takes out as a whole. The users' words in it are
// those of this turn, or of messages that come back as turns of their own.
func (s *entries) resume(partial []session.Entry) {
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

// add makes entries of an agent's event, and returns what of it is worth a checkpoint.
func (s *entries) add(e agent.Event, at int64) activity {
	last := len(s.made) - 1
	switch e.Type {
	case agent.EventText:
		switch {
		case e.Text == "":
			return nothing
		case last >= 0 && s.made[last].Role == session.RoleAssistant:
			s.words.WriteString(e.Text)
		default:
			s.made = append(s.made, session.Entry{Role: session.RoleAssistant, Text: e.Text, Turn: s.turn.ID, At: at})
		}
		return someText
	case agent.EventToolStart:
		s.settle()
		s.made = append(s.made, session.Entry{
			Role: session.RoleTool, Turn: s.turn.ID, At: at,
			Tool: &session.ToolUse{Name: e.Name, CallID: e.CallID, Input: e.Input},
		})
	case agent.EventToolEnd:
		for i := last; i >= 0; i-- {
			if tool := s.made[i].Tool; tool != nil && tool.CallID == e.CallID && tool.Output == nil && tool.Error == "" {
				// A checkpoint may be reading the old one.
				ended := *tool
				ended.Output, ended.Error = e.Output, e.Error
				s.made[i].Tool = &ended
				break
			}
		}
		return toolEnded
	case agent.EventUsage:
		u := *e.Usage
		if s.usage != nil {
			u = s.usage.Plus(u)
		}
		s.usage = &u
	}
	return nothing
}

// addUser adds the words of a user who was steered in.
func (s *entries) addUser(m session.Message, at int64) {
	s.settle()
	s.made = append(s.made, s.userEntry(m, at))
}

// settle puts the words into the last entry: one that grew with each piece of a reply
// would be copied as often.
func (s *entries) settle() {
	if s.words.Len() > 0 {
		s.made[len(s.made)-1].Text += s.words.String()
		s.words.Reset()
	}
}

func (s *entries) userEntry(m session.Message, at int64) session.Entry {
	return session.Entry{
		Role: session.RoleUser, Text: m.Text, Message: m.ID, Meta: m.Meta, Attachments: m.Attachments, Turn: s.turn.ID, At: at,
	}
}

// reply is the text after the last tool.
func (s *entries) reply() string {
	s.settle()
	if n := len(s.made); n > 0 && s.made[n-1].Role == session.RoleAssistant {
		return s.made[n-1].Text
	}
	return ""
}

// all copies the entries: the user's words, then what the agent did. reply is the agent's
// own final text, in the place of its last words; "": these stand. The last entry tells
// what the turn used, and whether it was interrupted.
func (s *entries) all(reply string, at int64, interrupted bool) []session.Entry {
	s.settle()
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
		all = append(all, session.Entry{Role: session.RoleAssistant, Text: reply, Turn: s.turn.ID, At: at})
		last = &all[len(all)-1]
	}
	last.Interrupted = last.Interrupted || interrupted
	last.Usage = s.usage
	return all
}
