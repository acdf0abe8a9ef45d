package terminal

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"turnstile/internal/printable"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// Tone is how loud a line is.
type Tone int

// The tones.
const (
	Aside   Tone = iota // goes with the reply
	Trouble             // something failed, which may well be in order
	Alert               // otherwise than expected, or the user is asked for something
)

// Line is one line for a person who follows a message, besides the reply. It has no
// control characters.
type Line struct {
	Text string
	Tone Tone
}

// Story makes lines of the events of one message's turns. Each use of a tool is one
// line, once it has ended.
type Story struct {
	Message string // its id
	Mine    bool   // all of the session's messages are the person's

	Ephemeral bool // what is interrupted is lost

	// Allow and Deny are what the person enters to answer a question, less its id.
	Allow, Deny string

	tools []tool // that have not ended
	asked int    // questions that nobody has answered
	usage session.Usage
	used  bool
}

// tool is one use of a tool.
type tool struct {
	callID, name, input string
	began               time.Time
}

// See returns what there is to say of an event. Text, thoughts and raw events say
// nothing here.
func (s *Story) See(e session.Event) (lines []Line) {
	switch e.Type {
	case string(agent.EventToolStart):
		s.tools = append(s.tools, tool{callID: e.CallID, name: toolName(e.Name), input: brief(e.Input, inputLen), began: e.At})
	case string(agent.EventToolEnd):
		return []Line{s.ended(e)}
	case string(agent.EventUsage):
		if e.Usage != nil {
			s.usage, s.used = s.usage.Plus(*e.Usage), true
		}
	case session.EventPermissionAsked:
		s.asked++
		return s.question(e)
	case session.EventPermissionAnswered:
		s.asked = max(0, s.asked-1)
		return []Line{{Text: "permission " + printable.Line(e.CallID) + ": " + decision(e.Decision)}}
	case session.EventTurnStarted, session.EventTurnRetry, session.EventTurnRequeued:
		lines = s.unfinished("did not end", Trouble) // they are of an earlier run
		fallthrough
	default:
		if s.Ephemeral && e.Type == session.EventTurnRequeued {
			return append(lines, Line{"the turn was interrupted; nothing is kept", Alert})
		}
		if text, alert := note(e, s.Mine || slices.Contains(e.Messages, s.Message)); alert {
			lines = append(lines, Line{text, Alert})
		} else if text != "" {
			lines = append(lines, Line{Text: text})
		}
	}
	return lines
}

// End returns what there is to say when the message has ended: of tools that never
// did, and of what it has cost.
func (s *Story) End(end session.Outcome) []Line {
	lines := s.unfinished("did not end", Trouble)
	usage := s.usage
	if end.Usage != nil {
		usage, s.used = *end.Usage, true
	}
	if text := usageLine(usage); s.used && text != "" {
		lines = append(lines, Line{Text: text})
	}
	return lines
}

// Leave returns what there is to say when the message is followed no more before its
// end.
func (s *Story) Leave() []Line { return s.unfinished("still runs", Aside) }

// Doing is the use of tools that goes on, in one line. It is empty while the agent
// waits for an answer: the person has the word, and types it where this would stand.
func (s *Story) Doing() string {
	n := len(s.tools)
	if n == 0 || s.asked > 0 {
		return ""
	}
	text := s.tools[n-1].String() + " ..."
	if n > 1 {
		var names []string
		for _, t := range s.tools[:n-1] {
			names = append(names, t.name)
		}
		text += " (and " + strings.Join(names, ", ") + ")"
	}
	return text
}

// ended takes a tool out and tells how it went.
func (s *Story) ended(e session.Event) Line {
	t := tool{name: toolName(cmp.Or(e.Name, e.CallID))} // it began before we looked
	if i := slices.IndexFunc(s.tools, func(t tool) bool { return t.callID == e.CallID }); i >= 0 {
		t = s.tools[i]
		s.tools = slices.Delete(s.tools, i, i+1)
	}
	text := t.String()
	if !t.began.IsZero() && !e.At.IsZero() {
		text += " (" + took(e.At.Sub(t.began)) + ")"
	}
	if e.Error != "" {
		return Line{text + " failed: " + cut(printable.Line(e.Error), failureLen), Trouble}
	}
	return Line{Text: text}
}

func (s *Story) unfinished(how string, tone Tone) (lines []Line) {
	for _, t := range s.tools {
		lines = append(lines, Line{t.String() + " " + how, tone})
	}
	s.tools, s.asked = nil, 0
	return lines
}
