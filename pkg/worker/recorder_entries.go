package worker

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

// entries are a turn's entries so far. The recorder's lock guards them.
type entries struct {
	turn       *protocol.ClaimedTurn
	began      int64                      // when the turn began from which this one goes on, ms by Redis' clock; 0: with this run
	later      int                        // how many of the turn's messages were steered into earlier runs. They are the last
	before     []session.Entry            // of an earlier run of the turn, from which this one does not go on
	made       []session.Entry            // of the assistant, tools and steered messages
	closed     int                        // how many of them stand if the turn goes on
	apart      bool                       // text after them is another entry
	touched    []int                      // places in made of what the journal does not have yet; one may stand there twice
	shown      map[string]int             // tools in made that an earlier run has begun and not ended, by call ID
	open       map[string][]int           // places in made of the tools that have not ended, by call ID
	earlier    map[[sha256.Size]byte]bool // the tools that earlier runs have ended, see sameUse
	progressed bool                       // this run has ended one that no earlier run had
	words      strings.Builder            // the end of the last entry's text, not added to it yet
	usage      *session.Usage             // nil: the agent has not reported it
}

// inherit takes over the entries of an earlier, interrupted run of the turn. They belong to this
// turn now, so that /undo removes them with it. Users' entries are left out: they are of this
// turn's messages, or of messages that run as separate turns.
func (s *entries) inherit(earlier []session.Entry) {
	for _, e := range earlier {
		if e.Role != session.RoleUser {
			e.Turn = s.turn.ID
			s.before = append(s.before, e)
		}
	}
	if n := len(s.before); n > 0 {
		s.before[n-1].Interrupted = true
	}
}

// keep takes over the entries of earlier runs from which the turn goes on. They belong to this turn now, so
// that /undo removes them with it. It returns what was history for those runs.
func (s *entries) keep(j *protocol.Journal) (recap []session.Entry) {
	messages := s.turn.Messages()
	begun := j.Messages[:min(j.Lead, len(j.Messages))]
	for _, m := range messages[1:] {
		if !slices.Contains(begun, m.Message.ID) {
			s.later++
		}
	}
	entries, from := j.Entries[:j.Closed], min(j.Lead, j.Closed)
	if from > 0 && !entries[0].At.IsZero() {
		s.began = entries[0].At.UnixMilli()
	}
	for i := len(entries) - 1; i >= from && recap == nil; i-- {
		if entries[i].Interrupted {
			recap = entries[:i+1]
			s.inherit(recap[from:])
			from = i + 1
		}
	}
	for _, e := range entries[from:] {
		if e.Role == session.RoleUser && !slices.ContainsFunc(messages, func(m protocol.Taken) bool { return m.Message.ID == e.Message }) {
			continue // it is a separate turn, or was cancelled
		}
		if e.Turn != s.turn.ID && e.Tool != nil && e.Tool.Run == "" {
			use := *e.Tool
			use.Run, e.Tool = e.Turn, &use
		}
		e.Turn = s.turn.ID
		i := len(s.made)
		s.made = append(s.made, e)
		s.touch(i)
		if t := e.Tool; t != nil && !endedUse(t) {
			s.opens(t.CallID, i)
			if s.shown == nil {
				s.shown = map[string]int{}
			}
			s.shown[t.CallID]++
		}
	}
	s.closed = len(s.made)
	return recap
}

// took notes the tools that earlier runs have ended.
func (s *entries) took(earlier []session.Entry) {
	for _, e := range earlier {
		if e.Tool != nil && endedUse(e.Tool) {
			if s.earlier == nil {
				s.earlier = map[[sha256.Size]byte]bool{}
			}
			s.earlier[sameUse(e.Tool)] = true
		}
	}
}

func endedUse(use *session.ToolUse) bool { return use.Output != nil || use.Error != "" }

// sameUse is equal for uses of a tool with the same input.
func sameUse(use *session.ToolUse) [sha256.Size]byte {
	return sha256.Sum256(append([]byte(use.Name+"\x00"), canonical(use.Input)...))
}

// opens notes that a tool has not ended. Its entry has this place in made.
func (s *entries) opens(callID string, place int) {
	if s.open == nil {
		s.open = map[string][]int{}
	}
	s.open[callID] = append(s.open[callID], place)
}

// was notes which run has done a step, the last use of a tool with this call ID, and how long it took.
func (s *entries) was(callID string, step stepRecord) {
	for i := len(s.made) - 1; i >= 0; i-- {
		if t := s.made[i].Tool; t != nil && t.CallID == callID {
			use := *t
			use.Run, use.Took = step.Turn, session.Millis(time.Duration(step.Took)*time.Millisecond)
			if use.Run == s.turn.ID {
				use.Run = ""
			}
			s.made[i].Tool = &use
			s.touch(i)
			return
		}
	}
}

// touch notes that the journal does not have an entry of made yet.
func (s *entries) touch(place int) {
	if n := len(s.touched); n == 0 || s.touched[n-1] != place {
		s.touched = append(s.touched, place)
	}
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
		case e.Text == "":
			return nothing
		case last >= 0 && s.made[last].Role == session.RoleAssistant && (!s.apart || last >= s.closed):
			s.words.WriteString(e.Text)
			s.touch(last)
		default:
			s.touch(last + 1)
			s.flushWords()
			s.made = append(s.made, session.Entry{Role: session.RoleAssistant, Text: e.Text, Turn: s.turn.ID, At: atMS(at)})
		}
		return someText
	case session.EventToolStart:
		s.flushWords()
		s.made = append(s.made, session.Entry{
			Role: session.RoleTool, Turn: s.turn.ID, At: atMS(at),
			Tool: &session.ToolUse{Name: e.Name, CallID: e.CallID, Input: e.Input, Client: e.Client, Parallel: e.Parallel},
		})
		s.opens(e.CallID, len(s.made)-1)
		s.touch(len(s.made) - 1)
	case session.EventToolEnd:
		if open := s.open[e.CallID]; len(open) > 0 {
			i := open[len(open)-1]
			ended := *s.made[i].Tool // a checkpoint may be reading the old value
			ended.Output, ended.Error = e.Output, e.Error
			s.made[i].Tool = &ended
			s.touch(i)
			if endedUse(&ended) {
				s.open[e.CallID] = open[:len(open)-1]
				s.progressed = s.progressed || !s.earlier[sameUse(&ended)]
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
		s.touch(i)
	}
}

// addUser adds a message that was steered in.
func (s *entries) addUser(m wire.Message, at int64) {
	s.flushWords()
	s.made = append(s.made, s.userEntry(m, at))
	s.touch(len(s.made) - 1)
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
	all := append(s.given(), s.made...)
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

// items counts what followers see of entries: texts and tools.
func items(entries []session.Entry) (n int) {
	for _, e := range entries {
		if e.Role != session.RoleUser {
			n++
		}
	}
	return n
}

func atMS(ms int64) session.Time { return session.Time{Time: time.UnixMilli(ms)} }
