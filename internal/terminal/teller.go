package terminal

import (
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// Teller shows the events of one message's turns on a screen as they come: the reply
// as it is, thoughts where somebody looks on, all else by the line.
type Teller struct {
	Story
	Screen *Screen
}

// See shows an event.
func (t *Teller) See(e session.Event) {
	switch e.Type {
	case string(agent.EventText):
		t.Screen.Text(e.Text)
		return
	case string(agent.EventThought):
		t.Screen.Thought(e.Text)
		return
	}
	if Breaks(e) {
		t.Screen.EndText()
	}
	t.tell(t.Story.See(e))
}

// End shows what there is to say when the message has ended.
func (t *Teller) End(end session.Outcome) {
	t.Screen.EndText()
	t.tell(t.Story.End(end))
}

// Leave shows what there is to say when it is followed no more before that.
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

// Breaks tells whether the text before an event and that behind it are on lines of
// their own: they are two replies, or what was said before a tool and after.
func Breaks(e session.Event) bool {
	switch e.Type {
	case string(agent.EventToolStart), session.EventTurnStarted, session.EventTurnRetry,
		session.EventTurnRequeued, session.EventPermissionAsked:
		return true
	}
	return false
}
