// Package history checks the records of handlers: every message once, each session's in order and one at a
// time.
package history

import "fmt"

// Step is a handler's begin or end with a message.
type Step struct {
	Session  int  `json:"s"`
	Sequence int  `json:"q"`
	End      bool `json:"e,omitempty"`
}

// Verdict counts violations.
type Verdict struct {
	Lost       int // messages that no handler ended
	Twice      int // begins with a message that had begun before
	OutOfOrder int // first begins with a message after a later one of its session
	Overlaps   int // begins while another message of the session was handled
	Unknown    int // begins with a message that nobody sent
}

// Add adds the counts of another verdict.
func (v *Verdict) Add(o Verdict) {
	v.Lost += o.Lost
	v.Twice += o.Twice
	v.OutOfOrder += o.OutOfOrder
	v.Overlaps += o.Overlaps
	v.Unknown += o.Unknown
}

func (v Verdict) String() string {
	return fmt.Sprintf("lost %d, twice %d, out of order %d, overlaps %d, unknown %d", v.Lost, v.Twice, v.OutOfOrder, v.Overlaps, v.Unknown)
}

// session has the records of one session so far.
type session struct {
	begun, ended []bool
	last         int // the highest sequence that began
	running      int
}

// Check reads the steps in the order in which they happened. Each of the sessions was sent each
// messages, numbered from 0.
func Check(sessions, each int, steps []Step) (v Verdict) {
	all := make([]session, sessions)
	for i := range all {
		all[i] = session{begun: make([]bool, each), ended: make([]bool, each), last: -1}
	}
	for _, step := range steps {
		if step.Session < 0 || step.Session >= sessions || step.Sequence < 0 || step.Sequence >= each {
			v.Unknown++
			continue
		}
		s := &all[step.Session]
		if step.End {
			s.running--
			s.ended[step.Sequence] = true
			continue
		}
		if s.running > 0 {
			v.Overlaps++
		}
		s.running++
		if s.begun[step.Sequence] {
			v.Twice++
			continue
		}
		s.begun[step.Sequence] = true
		if step.Sequence < s.last {
			v.OutOfOrder++
		}
		s.last = max(s.last, step.Sequence)
	}
	for _, s := range all {
		for _, ended := range s.ended {
			if !ended {
				v.Lost++
			}
		}
	}
	return v
}
