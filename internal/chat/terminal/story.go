package terminal

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"turnstile/internal/text/printable"
	"turnstile/pkg/session"
)

// Tone is a line's importance.
type Tone int

// The tones.
const (
	Aside   Tone = iota // accompanies the reply
	Trouble             // something failed, which may be normal
	Alert               // something unexpected, or a question to the user
)

// Line is one line between parts of the reply, for a person who follows a message. It has no
// control characters.
type Line struct {
	Text string
	Tone Tone
}

// Story turns the events of one message's turns into lines. Each use of a tool is one line, at its
// end.
type Story struct {
	Message string // its ID
	Mine    bool   // all of the session's messages are this person's

	Ephemeral bool // Redis ends with the program: interrupted turns are lost

	// Allow and Deny are the commands for a decision, without the question's ID.
	Allow, Deny string

	tools []tool // running ones
	asked int    // open questions
	parks bool   // the turn is parked: its tools wait
	usage session.Usage
	used  bool
}

// tool is one use of a tool.
type tool struct {
	callID, name, input string
	began               time.Time
	interrupted         bool // its run was: it may run again
}

// See returns the lines for an event. Text, thoughts and raw events have none.
func (s *Story) See(e session.Event) (lines []Line) {
	switch e.Type {
	case session.EventToolStart:
		s.tools = slices.DeleteFunc(s.tools, func(t tool) bool { return t.interrupted && t.callID == e.CallID })
		if e.Client {
			return []Line{{Text: tool{name: toolName(e.Name), input: brief(e.Input, inputLen)}.String() + " is the client's: its result comes with another message"}}
		}
		s.tools = append(s.tools, tool{callID: e.CallID, name: toolName(e.Name), input: brief(e.Input, inputLen), began: e.At})
	case session.EventToolEnd:
		return []Line{s.ended(e)}
	case session.EventUsage:
		if e.Usage != nil {
			s.usage, s.used = s.usage.Plus(*e.Usage), true
		}
	case session.EventQuestionAsked:
		s.asked++
		return s.question(e)
	case session.EventQuestionAnswered:
		s.asked = max(0, s.asked-1)
		text := "permission " + printable.Line(e.CallID) + ": " + decision(e.Decision)
		if e.By != "" {
			text += " by " + printable.Line(e.By)
		}
		return []Line{{Text: text}}
	case session.EventTurnStarted, session.EventTurnRetry, session.EventTurnRequeued:
		for i := range s.tools {
			s.tools[i].interrupted = true
		}
		switch parked := e.Reason == session.ReasonParked; {
		case s.parks && e.Continues == "" && !parked:
			s.tools, s.asked = nil, 0 // the agent begins again, with its tools
		case e.Continues == "" && e.Keeps == 0 && !parked:
			lines = s.unfinished("did not end", Trouble)
		}
		s.parks = e.Reason == session.ReasonParked
		fallthrough
	default:
		switch {
		case s.Ephemeral && e.Reason == session.ReasonParked:
			return []Line{{Text: "the turn waits without a worker; it is lost if this program ends"}}
		case s.Ephemeral && e.Type == session.EventTurnRequeued:
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

// End returns the lines for the message's end: tools that did not end, and the usage.
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

// Leave returns the lines for the end of following before the message's end.
func (s *Story) Leave() []Line {
	if s.asked > 0 {
		return s.unfinished("waits for the decision", Aside)
	}
	return s.unfinished("still runs", Aside)
}

// Doing returns the running tools in one line. It is empty while a question is open, because the
// person types the decision in this place.
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

// ended removes a tool and returns the line for its end.
func (s *Story) ended(e session.Event) Line {
	t := tool{name: toolName(cmp.Or(e.Name, e.CallID))} // it started before the following began
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
