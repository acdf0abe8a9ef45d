package terminal

import (
	"turnstile/pkg/session"
)

// Teller shows the events of one message's turns on a screen as they arrive: the reply unchanged,
// thoughts on a terminal only, all else line by line.
type Teller struct {
	Story
	Screen *Screen
}

// See shows an event.
func (t *Teller) See(e session.Event) {
	switch e.Type {
	case session.EventText:
		t.Screen.Text(e.Text)
		return
	case session.EventThought:
		t.Screen.Thought(e.Text)
		return
	}
	if Breaks(e) {
		t.Screen.EndText()
	}
	t.tell(t.Story.See(e))
}

// End shows the lines for the message's end.
func (t *Teller) End(end session.Outcome) {
	t.Screen.EndText()
	t.tell(t.Story.End(end))
}

// Leave shows the lines for the end of following before the message's end.
func (t *Teller) Leave() {
	t.Screen.EndText()
	t.tell(t.Story.Leave())
}

func (t *Teller) tell(lines []Line) {
	t.Screen.Doing(t.Doing())
	for _, l := range lines {
		t.Screen.Tell(l)
	}
}

// Breaks reports whether an event separates the texts before and after it into different lines: two
// replies, or the texts before and after a tool.
func Breaks(e session.Event) bool {
	switch e.Type {
	case session.EventToolStart, session.EventTurnStarted, session.EventTurnRetry,
		session.EventTurnRequeued, session.EventQuestionAsked:
		return true
	}
	return false
}
