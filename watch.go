package turnstile

import (
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/stream"
	"turnstile/pkg/session"
)

// watch follows one message's turns through a session's events.
type watch struct {
	id    string
	turns map[string]bool // the message's, known from their starts
	text  streamed
	show  func(session.Event) // nil in a Wait
	end   session.Event       // the message's last end in the stream

	shown   stream.EventID // events up to this one are read, but not shown again
	counted stream.EventID // events up to this one do not change text again
	at      time.Time      // of the last event

	// orphan is a turn of the message. The stream may have lost its start: that is so if the first
	// event of that turn is another one.
	orphan string
}

// apply handles one entry of the stream, and returns the message's end if the entry has it.
func (w *watch) apply(m redis.XMessage) (end session.Event, ended bool) {
	for _, e := range stream.DecodeEvents(m) {
		show, again := func(session.Event) {}, false
		if id, err := stream.ParseEventID(e.ID); err == nil {
			again = !id.After(w.counted)
			if id.After(w.shown) {
				w.shown = id
				if w.show != nil {
					show = w.show
				}
			}
		}
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
			w.text.rest(e, show)
			show(e)
			w.end, end, ended = e, e, true
		case again:
		default:
			w.text.seen(e)
			show(e)
		}
	}
	return end, ended
}

// countUpTo marks the events up to an ID as contained in text, because they are read again. Before
// the first event the ID is "0", which is none.
func (w *watch) countUpTo(id string) {
	if last, err := stream.ParseEventID(id); err == nil && last.After(w.counted) {
		w.counted = last
	}
}

// streamed is the part of a reply that was seen as text events. The last piece is in the turn's end
// only.
type streamed struct {
	turn    string
	output  stream.Output
	text    []byte // grows in place, because a long reply has many pieces
	parts   []part // of text
	steered int    // how much of text precedes the last steer
	cut     bool   // the stream has lost an earlier part of the text
}

// part is an item of a text: its number, from 1, and where it begins.
type part struct{ item, at int }

func (s *streamed) seen(e session.Event) {
	if e.Turn != s.turn && e.Type != session.EventTurnStarted {
		*s = streamed{turn: e.Turn}
	}
	s.turn = e.Turn
	before := s.output.Items
	switch drop := s.output.See(e); {
	case drop == 0:
		s.text, s.parts, s.steered, s.cut = s.text[:0], nil, 0, s.cut && e.Type != session.EventTurnStarted
	case drop > 0:
		for n := len(s.parts); n > 0 && s.parts[n-1].item > drop; n-- {
			s.text, s.parts = s.text[:s.parts[n-1].at], s.parts[:n-1]
		}
		s.steered = min(s.steered, len(s.text))
	}
	switch e.Type {
	case session.EventText:
		if s.output.Items != before {
			s.parts = append(s.parts, part{s.output.Items, len(s.text)})
		}
		s.text = append(s.text, e.Text...)
	case session.EventToolStart:
		s.text, s.parts, s.steered, s.cut = s.text[:0], nil, 0, false
	case session.EventSteered:
		s.steered = len(s.text)
	}
}

// rest shows the part of a turn's reply that was not seen as text events.
func (s *streamed) rest(end session.Event, show func(session.Event)) {
	s.seen(session.Event{Turn: end.Turn})
	if rest := s.unseen(end.Reply); rest != "" {
		e := session.Event{Type: session.EventText, Turn: end.Turn, Text: rest, At: end.At}
		s.seen(e)
		show(e)
	}
}

// unseen returns the part of a reply after the text that was seen. The reply is the whole text
// since the last tool, or the text after the last steer. If it is neither, unseen returns "".
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
