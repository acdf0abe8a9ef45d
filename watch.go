package turnstile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// watch follows one message's turns through a session's events.
type watch struct {
	id    string
	turns map[string]bool // of the message, learnt from their starts
	text  streamed
	see   func(session.Event) // nil: nobody looks

	shown  eventID   // events up to here are learnt from, and not shown again
	learnt eventID   // nor are those up to here learnt from again
	at     time.Time // of the last event

	// orphan is a turn of the message whose start the stream may have lost. It has, if
	// what is heard first of that turn is something else.
	orphan string
}

// hear takes one entry of the stream, and answers the message's end if it is in it.
func (w *watch) hear(m redis.XMessage) (end session.Event, ended bool) {
	see := func(session.Event) {}
	id, err := parseEventID(m.ID)
	again := err == nil && !id.behind(w.learnt)
	if err == nil && id.behind(w.shown) {
		w.shown = id
		if w.see != nil {
			see = w.see
		}
	}
	for _, e := range protocol.DecodeEvents(m) {
		w.at = e.At
		named := slices.Contains(e.Messages, w.id)
		if named && (e.Type == session.EventTurnStarted || e.Type == session.EventSteered) {
			w.turns[e.Turn] = true
		}
		if e.Turn != "" && e.Turn == w.orphan {
			if e.Type != session.EventTurnStarted {
				w.turns[e.Turn] = true
				w.text = streamed{turn: e.Turn, cut: true}
			}
			w.orphan = ""
		}
		switch {
		case !named && !w.turns[e.Turn]:
		case e.Type == session.EventTurnEnded:
			w.text.rest(e, see)
			end, ended = e, true
		case again:
		default:
			w.text.seen(e)
			see(e)
		}
	}
	return end, ended
}

// streamed is the part of a reply that was seen as text events. A worker does
// not send the last piece twice, as text and in the turn's end.
type streamed struct {
	turn    string
	text    []byte // grows in place: a long reply has many pieces
	steered int    // how much of text came before the last steer
	cut     bool   // more came before the text, which the stream has lost
}

func (s *streamed) seen(e session.Event) {
	if e.Turn != s.turn {
		*s = streamed{turn: e.Turn}
	}
	switch e.Type {
	case string(agent.EventText):
		s.text = append(s.text, e.Text...)
	case string(agent.EventToolStart):
		s.text, s.steered, s.cut = s.text[:0], 0, false
	case session.EventSteered:
		s.steered = len(s.text)
	}
}

// rest shows what a turn's end has beyond the text that was seen.
func (s *streamed) rest(end session.Event, see func(session.Event)) {
	s.seen(session.Event{Turn: end.Turn})
	if rest := s.unseen(end.Reply); rest != "" {
		e := session.Event{Type: string(agent.EventText), Turn: end.Turn, Text: rest, At: end.At, ID: end.ID}
		s.seen(e)
		see(e)
	}
}

// unseen is the end of a reply, which is all of the text since the last tool, or what
// came after the last steer. A reply that is neither is not what was seen.
func (s *streamed) unseen(reply string) string {
	text := string(s.text)
	if rest, ok := strings.CutPrefix(reply, text); ok {
		return rest
	}
	if rest, ok := strings.CutPrefix(reply, text[s.steered:]); ok {
		return rest
	}
	if i := strings.LastIndex(reply, text); s.cut && i >= 0 {
		return reply[i+len(text):]
	}
	return ""
}

// eventID is the id of a stream's entry: the time, and a number within it.
type eventID struct{ ms, seq uint64 }

func (id eventID) behind(other eventID) bool {
	return id.ms > other.ms || id.ms == other.ms && id.seq > other.seq
}

var eventIDPattern = regexp.MustCompile(`^[0-9]{1,20}-[0-9]{1,20}$`)

func parseEventID(text string) (id eventID, err error) {
	if eventIDPattern.MatchString(text) {
		ms, seq, _ := strings.Cut(text, "-")
		if id.ms, err = strconv.ParseUint(ms, 10, 64); err == nil {
			id.seq, err = strconv.ParseUint(seq, 10, 64)
		}
		if err == nil {
			return id, nil
		}
	}
	return eventID{}, fmt.Errorf("%w event id %q: it is two numbers, as 1795227266293-0", session.ErrInvalid, text)
}

// ValidateEventID reports whether text may be the ID of an Event. The error wraps
// session.ErrInvalid.
func ValidateEventID(text string) error {
	_, err := parseEventID(text)
	return err
}
