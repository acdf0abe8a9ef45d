package turnlog

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// item is an entry that this turn has made. It may change until its tool has ended, or its text.
type item struct {
	session.Entry
	version int // when it changed last
}

// entries are a turn's entries so far.
type entries struct {
	turn   *protocol.ClaimedTurn
	goesOn bool            // text after those that stand is another entry
	began  int64           // when the turn began from which this one goes on, ms by Redis' clock; 0: with this run
	later  int             // how many of the turn's messages were steered into earlier runs. They are the last
	before []session.Entry // of an earlier run of the turn, from which this one does not go on
	made   []item          // of the assistant, tools and steered messages

	version  int // rises with each change of an item
	stored   int // the version that the journal has
	standing int // how many items stand if the turn goes on

	open       map[string][]int           // places in made of the tools that have not ended, by call ID
	announced  map[string]int             // how many of these an earlier run has shown, by call ID
	earlier    map[[sha256.Size]byte]bool // the tools that earlier runs have ended, see sameUse
	progressed bool                       // this run has ended one that no earlier run had
	words      strings.Builder            // the end of the last entry's text, not added to it yet
	usage      *session.Usage             // nil: the agent has not reported it
}

func newEntries(turn *protocol.ClaimedTurn) entries {
	return entries{turn: turn, open: map[string][]int{}, announced: map[string]int{}, earlier: map[[sha256.Size]byte]bool{}}
}

func endedUse(use *session.ToolUse) bool { return use.Output != nil || use.Error != "" }

// sameUse is equal for uses of a tool with the same input.
func sameUse(use *session.ToolUse) [sha256.Size]byte {
	return sha256.Sum256(append([]byte(use.Name+"\x00"), canonical(use.Input)...))
}

// touch notes that an item has changed.
func (s *entries) touch(place int) {
	s.version++
	s.made[place].version = s.version
}

// append adds an item.
func (s *entries) append(e session.Entry) {
	s.flushWords()
	s.made = append(s.made, item{Entry: e})
	s.touch(len(s.made) - 1)
}

// change changes a tool's item. A write may be reading its old value.
func (s *entries) change(place int, how func(*session.ToolUse)) {
	use := *s.made[place].Tool
	how(&use)
	s.made[place].Tool = &use
	s.touch(place)
}

// running returns the place of the last tool with this call ID that has not ended.
func (s *entries) running(callID string) (place int, ok bool) {
	if open := s.open[callID]; len(open) > 0 {
		return open[len(open)-1], true
	}
	return 0, false
}

// lead returns the messages that the turn started with. The others were steered into earlier runs.
func (s *entries) lead() []protocol.Taken {
	all := s.turn.Messages()
	return all[:len(all)-s.later]
}

// messages returns the IDs of the messages whose words are in the entries, up to a place in made, the turn's
// own first.
func (s *entries) messages(made int) (ids []string) {
	for _, m := range s.lead() {
		ids = append(ids, m.Message.ID)
	}
	for _, e := range s.made[:made] {
		if e.Role == session.RoleUser {
			ids = append(ids, e.Message)
		}
	}
	return ids
}

// add adds an event of the agent, and returns its importance to a checkpoint.
func (s *entries) add(e agent.Event, at int64) activity {
	last := len(s.made) - 1
	switch e.Type {
	case session.EventText:
		switch {
		case e.Sent != nil:
			if last >= 0 && s.made[last].Role == session.RoleAssistant {
				s.made[last].Sent = e.Sent
				s.touch(last)
			}
			return nothing
		case e.Text == "":
			return nothing
		case last >= 0 && s.made[last].Role == session.RoleAssistant && (!s.goesOn || last >= s.standing):
			s.words.WriteString(e.Text)
			s.touch(last)
		default:
			s.append(session.Entry{Role: session.RoleAssistant, Text: e.Text, Turn: s.turn.ID, At: atMS(at)})
		}
		return someText
	case session.EventToolStart:
		s.append(session.Entry{
			Role: session.RoleTool, Turn: s.turn.ID, At: atMS(at), Sent: e.Sent,
			Tool: &session.ToolUse{Name: e.Name, CallID: e.CallID, Input: e.Input, Client: e.Client, Parallel: e.Parallel},
		})
		s.open[e.CallID] = append(s.open[e.CallID], len(s.made)-1)
	case session.EventToolEnd:
		if i, ok := s.running(e.CallID); ok {
			s.change(i, func(t *session.ToolUse) { t.Output, t.Error = e.Output, e.Error })
			if ended := s.made[i].Tool; endedUse(ended) {
				s.open[e.CallID] = s.open[e.CallID][:len(s.open[e.CallID])-1]
				s.progressed = s.progressed || !s.earlier[sameUse(ended)]
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

// was notes which run has done a step, the last use of a tool with this call ID, how long it took, and who has allowed it.
func (s *entries) was(callID string, step stepRecord) {
	for i := len(s.made) - 1; i >= 0; i-- {
		if t := s.made[i].Tool; t != nil && t.CallID == callID {
			s.change(i, func(t *session.ToolUse) {
				t.Run, t.Took, t.Decision, t.By = step.Turn, session.Millis(time.Duration(step.Took)*time.Millisecond), step.Decision, step.By
				if t.Run == s.turn.ID {
					t.Run = ""
				}
			})
			return
		}
	}
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
	e := session.Entry{
		Role: session.RoleUser, Text: m.Text, Message: m.ID, Meta: m.Meta, Attachments: m.Attachments, Turn: s.turn.ID, At: atMS(at),
	}
	if r := m.Request; r != nil && len(r.Past)+len(r.Results) > 0 {
		e.Brought = &r.Brought
	}
	return e
}

// reply is the agent's text after its last tool.
func (s *entries) reply() string {
	s.flushWords()
	if n := len(s.made); n > 0 && s.made[n-1].Role == session.RoleAssistant {
		return s.made[n-1].Text
	}
	return ""
}

// first is how many entries come before made.
func (s *entries) first() int { return len(s.turn.Collected) + 1 - s.later + len(s.before) }

// given are those entries: the users' messages, and what an earlier run has done.
func (s *entries) given() []session.Entry {
	given := make([]session.Entry, 0, s.first()+len(s.made)+1)
	for _, m := range s.lead() {
		given = append(given, s.userEntry(m.Message, cmp.Or(s.began, s.turn.StartedAt.UnixMilli())))
	}
	return append(given, s.before...)
}

// all copies the entries: the users' messages, then the agent's. reply is the agent's final text;
// unless empty, it replaces the text after the last tool. The last entry has the turn's usage, and
// whether the turn was interrupted.
func (s *entries) all(reply string, at int64, interrupted bool) []session.Entry {
	s.flushWords()
	all := s.given()
	for _, e := range s.made {
		all = append(all, e.Entry)
	}
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

// shownOf counts what followers see of the first items: texts and tools.
func (s *entries) shownOf(made int) (n int) {
	for _, e := range s.made[:made] {
		if e.Role != session.RoleUser {
			n++
		}
	}
	return n
}

// has reports whether a message was steered in.
func (s *entries) has(message string) bool {
	return slices.ContainsFunc(s.made, func(e item) bool { return e.Role == session.RoleUser && e.Message == message })
}

func atMS(ms int64) session.Time { return session.Time{Time: time.UnixMilli(ms)} }
