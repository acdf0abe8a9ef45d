package checker

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"turnstile/test/history"
)

// outcomes: an accepted message ends with an explained outcome, its entries and its reply.
func (r *run) outcomes() {
	for _, m := range r.sorted {
		if n := len(m.entries); n > 1 && !r.rerun(m) {
			r.find(Once, m.session, m.id, "the transcripts have %d entries of it", n)
		}
		switch {
		case m.first.At == 0:
			if r.retried(m) {
				continue // /retry sends the message under a new ID
			}
			r.find(Outcome, m.session, m.id, "nobody sent it, and an agent or a transcript has it")
		case m.accepted != 0:
			r.ended(m)
		case m.was(history.Refused) && !m.was(history.Unknown):
			reason := m.told[len(m.told)-1].Reason
			if len(m.sights) > 0 || len(m.entries) > 0 {
				r.find(Refused, m.session, m.id, "its sender was told that it is refused (%s), and it ran", reason)
			}
			if len(m.stored) > 0 {
				r.find(Refused, m.session, m.id, "its sender was told that it is refused (%s), and Redis has it: %s", reason, strings.Join(m.stored, ", "))
			}
			if f := m.final; f != nil && f.Reason != "unknown" {
				r.find(Refused, m.session, m.id, "its sender was told that it is refused (%s), and it is %s%s", reason, f.Status, f.Reason)
			}
		}
	}
	for _, rec := range r.records {
		if rec.Kind == history.Told && rec.Name != "" && rec.Status == history.Accepted {
			r.find(Refused, rec.Session, rec.ID, "another message with its id was accepted")
		}
	}
}

// retried reports whether the session had a /retry.
func (r *run) retried(m *message) bool {
	for _, c := range r.commands[m.session] {
		if c.Name == "/retry" {
			return true
		}
	}
	return false
}

func (r *run) ended(m *message) {
	f := m.final
	if f == nil {
		return // the run was given up before the end was read, which live reports
	}
	switch f.Status {
	case "":
		switch {
		case f.Reason != "unknown":
			r.find(Lost, m.session, m.id, "it is still %s at the end", f.Reason)
		case !r.deleted(m):
			r.find(Lost, m.session, m.id, "it was accepted at %s by %s and is nowhere", at(m.accepted), m.first.Via)
		}
	case "done":
		r.done(m)
	case "failed":
		if !r.mayFail(m) && !r.archived(m) {
			r.find(Outcome, m.session, m.id, "it failed, and nothing told its agent to: %s", f.Error)
		}
	case "interrupted":
		if m.kind != history.Modes && m.kind != history.Commands {
			r.find(Outcome, m.session, m.id, "it was interrupted, and nobody interrupts in its session")
		}
	case "stopped":
		if m.strict() {
			r.find(Outcome, m.session, m.id, "it was stopped, and nobody stops anything in its session: %s", f.Error)
		}
	case "dropped":
		if !r.capped(m) {
			r.find(Outcome, m.session, m.id, "it was dropped, and nobody set a cap: %s", f.Error)
		}
	default:
		r.find(Outcome, m.session, m.id, "it is %s: %s", f.Status, f.Error)
	}
}

// capped reports whether a /queue of the session may drop messages.
func (r *run) capped(m *message) bool {
	return slices.ContainsFunc(r.commands[m.session], func(c history.Record) bool { return strings.Contains(c.Name, " drop:") })
}

// done: a message that is done was seen by an agent, is in the transcript unless someone has undone
// it, and is named in its reply.
func (r *run) done(m *message) {
	switch {
	case len(m.sights) == 0 && m.mentioned == 0:
		r.find(Outcome, m.session, m.id, "it is done, and no agent saw it")
	case len(m.entries) == 0 && m.strict():
		r.find(Lost, m.session, m.id, "it is done, and no transcript has it")
	case m.first.Plan == history.EndFail && len(r.shared[m.final.Turn]) == 1:
		// exec reports it, acp returns an error, a model's server breaks the connection. Of several
		// messages in a turn, the last one's plan counts.
		r.find(Outcome, m.session, m.id, "it is done, and its agent was told to fail")
	case m.strict() && !history.Names(m.final.Reply, m.id) && !r.spoken(m):
		r.find(Outcome, m.session, m.id, "it is done, and its reply does not name it: %q", m.final.Reply)
	}
}

// spoken reports whether a text of the message's turn names it. The reply is only the text after the
// last steer.
func (r *run) spoken(m *message) bool {
	for _, e := range r.entries[m.session] {
		if e.Turn == m.final.Turn && e.Role == "assistant" && history.Names(e.Text, m.id) {
			return true
		}
	}
	return false
}

// rerun reports whether someone may have requeued the ended message. asynqmon's Run does so with a
// completed message, too. Each run then has its entries.
func (r *run) rerun(m *message) bool {
	for _, c := range r.commands[m.session] {
		if c.Name == "run all" || c.Name == "run" && c.ID == m.id || c.Name == "/resume" {
			return true
		}
	}
	return false
}

// deleted reports whether an operator may have deleted the message.
func (r *run) deleted(m *message) bool {
	for _, c := range r.commands[m.session] {
		if c.Kind == history.Command && (c.Name == "/undo" || c.Name == "/retry") && c.At >= m.accepted {
			return true // of a turn that failed or was stopped: the message is withdrawn
		}
		if c.Kind == history.Operator && (c.Name == "delete" && c.ID == m.id || c.Name == "delete all archived") {
			return true
		}
	}
	return false
}

// mayFail reports whether the text of a failure has a cause: the plan of a message in the turn, or a
// fault that kills agents. Every other text is a finding.
func (r *run) mayFail(m *message) bool {
	text := m.final.Error
	switch {
	case strings.Contains(text, history.ToldToFail):
		return r.planned(m, history.EndFail)
	case strings.Contains(text, history.ToldToRetry):
		return r.planned(m, history.EndRetry)
	case strings.HasPrefix(text, "given up: its worker died"):
		return r.deaths(m)
	case strings.Contains(text, "killed by signal"):
		return r.planned(m, history.EndDie) || r.hit(m, "agent killed", "guardian killed", "agent stopped")
	case strings.Contains(text, "the model's server"):
		return r.planned(m, history.EndFail, history.EndDie) || r.hit(m, "model's server killed")
	}
	return false
}

// planned reports whether a message of a turn with m was to end in one of these ways.
func (r *run) planned(m *message, ends ...string) bool {
	for _, other := range append(r.shared[m.final.Turn], m) {
		if slices.Contains(ends, other.first.Plan) {
			return true
		}
	}
	for _, s := range m.sights {
		if slices.Contains(ends, s.turn.Plan) {
			return true
		}
		for _, id := range s.turn.IDs {
			if slices.Contains(ends, r.message(m.session, id).first.Plan) {
				return true
			}
		}
	}
	return false
}

// hit reports whether a fault of one of these kinds may have ended an agent that was given m:
// shortly before the agent's first record, or in the longest time that agents work. An agent that
// was killed before it wrote its first record was killed while m waited.
func (r *run) hit(m *message, kinds ...string) bool {
	if len(m.sights) == 0 {
		return r.faultIn(m.first.At, cmp.Or(m.ended, math.MaxInt64), kinds...)
	}
	for _, s := range m.sights {
		if r.faultIn(s.at-int64(r.TTL), s.at+int64(10*r.TTL), kinds...) {
			return true
		}
	}
	return false
}

// archived reports whether an operator may have archived the message.
func (r *run) archived(m *message) bool {
	for _, c := range r.commands[m.session] {
		if c.Name == "archive all" || (c.Name == "archive" || c.Name == "cancel") && c.ID == m.id {
			return true
		}
	}
	return false
}

// deaths reports whether the message may have been given up because turns of its session died, at least
// as often in a row as the limit. A killed or stopped worker, a clock that ended the lease and an
// overloaded machine may look like deaths. A Redis that pauses does not.
func (r *run) deaths(m *message) bool {
	turns := r.turns[m.session]
	causes := 0
	for _, f := range slices.Concat(r.faults, r.stalls) {
		if len(turns) > 0 && f.At >= turns[0].At-int64(r.TTL) && f.Since <= cmp.Or(m.ended, math.MaxInt64) && f.Name != "Redis paused" {
			causes++
		}
	}
	return causes >= r.StuckLimit
}
