package reference

import (
	"fmt"
	"slices"
	"strings"
)

// Picture is the state of a session as text: a line for each thing that has a meaning. Two sides
// that agree have equal pictures.
type Picture map[string]string

// Renewed marks a transcript in a picture if the last operation has renewed its TTL.
const Renewed = ", its TTL begins"

// Picture returns the state of the session.
func (s *Session) Picture() Picture {
	p := Picture{
		"line":      fmt.Sprint(s.Line),
		"active":    fmt.Sprint(s.active()),
		"scheduled": s.each(Scheduled, func(m *Message) string { return m.ID + " at " + s.at(m.Due) }),
		"completed": s.each(Completed, (*Message).end),
		"archived":  s.each(Archived, (*Message).end),
		"paused":    fmt.Sprint(s.Paused),
		"turn":      s.turn(),
		"record": fmt.Sprintf("known %v, %s, title %q by %q, settings %v, replies to %q, dropped %v, agent %q", s.Known, s.TranscriptID, s.Title, s.TitleBy,
			s.Settings, s.ReplyTo, s.Dropped, s.Agent),
		"resume":  s.resume(),
		"journal": s.Journal.String(),
		"state":   s.State,
		"events":  Events(s.Events),
		"index":   s.index(),
	}
	for _, id := range slices.Concat(s.Line, s.active()) {
		m := s.Messages[id]
		p["message "+id] = fmt.Sprintf("%d failures, %d redelivered, %d deaths, %s", m.Failures, m.Redelivered, m.Deaths, s.quiet(m))
	}
	s.pictureOutbox(p)
	var follow []string
	for _, f := range s.FollowUps {
		if m := s.Messages[f.ID]; m != nil && (m.State == Pending || m.State == Active) {
			follow = append(follow, fmt.Sprintf("%s %s %s at %d", f.ID, f.Mode, f.State, f.Order))
		}
	}
	p["follow-ups"] = fmt.Sprint(follow)
	for sid, entries := range s.Transcripts {
		if len(entries) > 0 {
			p["transcript "+sid] = fmt.Sprint(entries)
			if s.Renewed[sid] {
				p["transcript "+sid] += Renewed
			}
		}
	}
	return p
}

func (s *Session) active() []string {
	if s.Run.Phase == Idle {
		return nil
	}
	return s.Run.IDs
}

func (s *Session) each(state string, tell func(*Message) string) string {
	var all []string
	for _, m := range s.Messages {
		if m.State == state {
			all = append(all, tell(m))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

func (m *Message) end() string { return fmt.Sprintf("%s %s %q", m.ID, m.Status, m.Error) }

func (s *Session) quiet(m *Message) string {
	if m.Quiet == nil {
		return "no quiet window"
	}
	return fmt.Sprintf("quiet till %s or %d", s.at(m.Quiet.Till), m.Quiet.Cap)
}

func (s *Session) at(ms int64) string { return At(ms, s.start) }

// At is a time in the form of pictures: since the life's start.
func At(ms, start int64) string {
	if ms == 0 {
		return "never"
	}
	return fmt.Sprintf("%+ds", ms/second-start/second)
}

// turn is the running turn, or the turn of a dead owner.
func (s *Session) turn() string {
	r := &s.Run
	if r.Phase == Idle {
		return fmt.Sprintf("idle after T%d", r.Fence)
	}
	question := ""
	if r.Question > 0 && r.Decided != r.Question {
		question = fmt.Sprintf(", asks %d", r.Question)
	}
	return fmt.Sprintf("T%d %s %s, %d entries, owned %v, asked %v %v %v, steer %v, nostart %v, rotated %q%s", r.Fence, r.Phase, r.TranscriptID,
		r.Entries, s.Owner != 0, r.Stop, r.Rollback, r.Interrupt, r.Steer, r.NoStart, r.Rotated, question)
}

func (s *Session) resume() string {
	r := s.Resume
	return fmt.Sprintf("pending %v %q at %s, %d interruptions, counted T%d, suspended %v", r.Pending, r.Reason, s.at(r.Marked), r.Interruptions,
		r.Counted, r.Suspended)
}

func (p *Journal) String() string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("T%d %v %v, steps %v, progress T%d", p.Turn, p.Messages, p.Entries, p.Steps, p.Progress)
}

func (e Entry) String() string {
	large := ""
	if e.Large {
		large = ", large"
	}
	return fmt.Sprintf("T%d %s %q%s", e.Turn, e.Role, e.Text, large)
}

func (s Settings) String() string {
	return fmt.Sprintf("%s/%d/%s/%d", s.Mode, s.Cap, s.Drop, s.Debounce)
}

func (s *Session) index() string {
	x := s.Index
	return fmt.Sprintf("ready %v, due %s, owned %v, known %v, listed %v", x.Ready, s.at(x.Due), x.Owned, x.Used > 0, x.Listed)
}

// Events is the events of one operation. The ends of one turn's messages have no order.
func Events(events []string) string {
	isEnd := func(event string) bool { return strings.HasPrefix(event, "turn_ended") }
	for from := 0; from < len(events); from++ {
		till := from
		for till < len(events) && isEnd(events[till]) {
			till++
		}
		slices.Sort(events[from:till])
		from = till
	}
	return strings.Join(events, "; ")
}

// Started is the event of a turn's start.
func Started(turn string, transcriptID string, messages []string) string {
	return fmt.Sprintf("turn_started %s %s %v", turn, transcriptID, slices.Sorted(slices.Values(messages)))
}

// Ended is the event of an end.
func Ended(status, turn string, messages []string, why string) string {
	return strings.TrimSpace(fmt.Sprintf("turn_ended %s %s %v %s", status, turn, messages, why))
}

func ended(status string, turn int, messages []string, why string) string {
	return Ended(status, label(turn), messages, why)
}

func label(turn int) string {
	if turn == 0 {
		return "no turn"
	}
	return name("T", turn)
}

func name(prefix string, n int) string { return fmt.Sprint(prefix, n) }
