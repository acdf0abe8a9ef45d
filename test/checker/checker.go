package checker

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"turnstile/test/history"
)

// The names of the rules. The package's comment explains them.
const (
	Exclusive = "exclusive"
	Fenced    = "fenced"
	InOrder   = "in order"
	Lost      = "lost"
	Once      = "once"
	Refused   = "refused"
	Outcome   = "outcome"
	History   = "history"
	Delivered = "delivered"
	Signed    = "signed"
	Repeated  = "repeated"
	Sequence  = "sequence"
	Told      = "told"
	Followed  = "followed"
	Live      = "live"
	Late      = "late"
	Bounded   = "bounded"
	Leftover  = "leftover"
	Steps     = "steps"
	Values    = "values"
)

// Finding is a promise that did not hold.
type Finding struct {
	Rule, Session, ID string
	Text              string
}

func (f Finding) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s: %s", f.Rule, f.Session, f.ID, f.Text))
}

// Limits are the settings of the run.
type Limits struct {
	TTL, Grace, Drain time.Duration
	StuckLimit        int
	Gaps              bool // streams are so short that followers miss events
}

// Report is the checker's result.
type Report struct {
	Totals   Totals
	Findings []Finding

	// Losses look like findings, but Redis had lost its last writes. docs/guarantees.md allows that, so
	// they are only counted and shown.
	Losses []Finding
}

// sight is a moment when an agent was given a message.
type sight struct {
	at      int64
	turn    *history.Record
	steered bool
}

// message collects all records of one message.
type message struct {
	session, id string
	kind        string           // of its session
	first       history.Record   // of its first attempt to be sent
	accepted    int64            // when a sender first learned so; 0: never
	told        []history.Record // without responses to another message with its ID
	sights      []sight
	mentioned   int64            // when a model first got it with another message; 0: never
	entries     []history.Record // the user's entries in the transcripts
	final       *history.Record
	stored      []string // of a refused message: the places where Redis has it at the end
	posts       []history.Record
	sequence    int64 // of its outcome's delivery, if handled; 0: none, several, or redriven
	ended       int64 // when someone first learned its outcome; 0: never
}

// end notes that someone learned the message's outcome.
func (m *message) end(at int64) {
	if m.ended == 0 || at < m.ended {
		m.ended = at
	}
}

func (m *message) was(status string) bool {
	return slices.ContainsFunc(m.told, func(r history.Record) bool { return r.Status == status })
}

type key struct{ session, id string }

// run is a history with its indexes.
type run struct {
	Limits
	records  []history.Record
	messages map[key]*message
	sorted   []*message // by their first attempt
	turns    map[string][]*history.Record
	faults   []history.Record
	stalls   []history.Record
	commands map[string][]history.Record  // of commands and operators, by session
	shared   map[string][]*message        // by the turn that ended them
	events   map[string][]*history.Record // stored, by session
	followed map[string][]*history.Record // by session
	entries  map[string][]history.Record
	findings []Finding
	losses   []Finding
}

// Check applies the rules. The order of the records matters only among those of one time.
func Check(records []history.Record, limits Limits) Report {
	records = slices.SortedStableFunc(slices.Values(records), func(a, b history.Record) int { return cmp.Compare(a.At, b.At) })
	r := &run{
		Limits: limits, records: records, messages: map[key]*message{}, turns: map[string][]*history.Record{},
		commands: map[string][]history.Record{}, shared: map[string][]*message{}, entries: map[string][]history.Record{},
		events: map[string][]*history.Record{}, followed: map[string][]*history.Record{},
	}
	for i := range records {
		r.index(&records[i])
	}
	for _, m := range r.messages {
		r.sorted = append(r.sorted, m)
	}
	slices.SortFunc(r.sorted, func(a, b *message) int {
		return cmp.Or(cmp.Compare(a.first.At, b.first.At), cmp.Compare(a.id, b.id))
	})
	for _, rule := range []func(){
		r.exclusive, r.fenced, r.deliveries, r.order, r.outcomes, r.steps, r.values, r.history, r.waits, r.streams, r.live, r.late, r.bounded, r.poison, r.leftovers,
	} {
		rule()
	}
	return Report{Totals: r.totals(), Findings: r.findings, Losses: r.losses}
}

func (r *run) find(rule, session, id, format string, args ...any) {
	f := Finding{rule, session, id, fmt.Sprintf(format, args...)}
	if r.lost(f) {
		r.losses = append(r.losses, f)
	} else {
		r.findings = append(r.findings, f)
	}
}

// lossy are the faults that lose acknowledged writes: a primary had not sent them to its replica, or
// Redis had not written them to the disk.
var lossy = []string{"primary killed", history.PrimaryReplaced, "Redis killed under everysec", "power lost under everysec"}

// lost reports whether a finding may come from such a loss: its message was on its way at such a fault,
// or it is about the session as a whole. Entries, order and leftovers must be right even then.
func (r *run) lost(f Finding) bool {
	switch f.Rule {
	case Exclusive, Fenced, Lost, Refused, Outcome, Delivered, Repeated, Sequence, Told, Followed, Steps, Values:
	default:
		return false
	}
	m, ok := r.messages[key{f.Session, f.ID}]
	if !ok {
		return r.faultIn(0, math.MaxInt64, lossy...)
	}
	end := m.accepted
	for _, s := range m.sights {
		end = max(end, s.at)
	}
	for _, p := range m.posts {
		end = max(end, p.At)
	}
	return r.faultIn(m.first.At, end+int64(5*time.Second), lossy...)
}

// message is the record of a message, made at its first mention.
func (r *run) message(session, id string) *message {
	k := key{session, id}
	m := r.messages[k]
	if m == nil {
		m = &message{session: session, id: id, kind: history.KindOf(session)}
		r.messages[k] = m
	}
	return m
}

func (r *run) index(rec *history.Record) {
	switch rec.Kind {
	case history.Send, history.Told:
		if rec.Name != "" {
			return // of another message with the ID
		}
		m := r.message(rec.Session, rec.ID)
		if rec.Kind == history.Send && m.first.At == 0 {
			m.first = *rec
		}
		if rec.Kind == history.Told {
			m.told = append(m.told, *rec)
			if rec.Status == history.Accepted && m.accepted == 0 {
				m.accepted = rec.At
			}
		}
	case history.Turn:
		r.turns[rec.Session] = append(r.turns[rec.Session], rec)
		for _, id := range rec.IDs {
			m := r.message(rec.Session, id)
			m.sights = append(m.sights, sight{at: rec.At, turn: rec})
		}
		if rec.Via == "model" {
			for _, id := range rec.Seen {
				if m := r.message(rec.Session, id); m.mentioned == 0 {
					m.mentioned = rec.At
				}
			}
		}
	case history.Steered:
		m := r.message(rec.Session, rec.ID)
		m.sights = append(m.sights, sight{at: rec.At, turn: rec, steered: true})
	case history.Ended:
		r.turns[rec.Session] = append(r.turns[rec.Session], rec)
	case history.Final:
		m := r.message(rec.Session, rec.ID)
		m.final = rec
		r.shared[rec.Turn] = append(r.shared[rec.Turn], m)
	case history.Stored:
		m := r.message(rec.Session, rec.ID)
		m.stored = append(m.stored, rec.Name)
	case history.Entry:
		r.entries[rec.Session] = append(r.entries[rec.Session], *rec)
		if rec.Role == "user" {
			m := r.message(rec.Session, rec.ID)
			m.entries = append(m.entries, *rec)
		}
	case history.Event:
		r.events[rec.Session] = append(r.events[rec.Session], rec)
	case history.Stream, history.Followed:
		r.followed[rec.Session] = append(r.followed[rec.Session], rec)
	case history.Post:
		for _, id := range rec.IDs {
			m := r.message(rec.Session, id)
			m.posts = append(m.posts, *rec)
			m.end(rec.At)
		}
	case history.Wait, history.Response:
		r.message(rec.Session, rec.ID).end(rec.At)
	case history.Fault:
		r.faults = append(r.faults, *rec)
	case history.Stall:
		r.stalls = append(r.stalls, *rec)
	case history.Command, history.Operator:
		r.commands[rec.Session] = append(r.commands[rec.Session], *rec)
	}
}

// faultIn reports whether a fault of one of these kinds (of any, without names) overlaps a time.
func (r *run) faultIn(from, to int64, names ...string) bool {
	for _, f := range r.faults {
		if f.Since <= to && f.At >= from && (len(names) == 0 || slices.Contains(names, f.Name)) {
			return true
		}
	}
	return false
}

// stalledIn reports whether the machine was overloaded in a time: leases end then, as if their workers
// were stopped.
func (r *run) stalledIn(from, to int64) bool {
	return slices.ContainsFunc(r.stalls, func(s history.Record) bool { return s.Since <= to && s.At >= from })
}

// strict reports whether only senders use the message's session. Then a message ends once, for
// good.
func (m *message) strict() bool {
	return m.kind != history.Commands && m.kind != history.Operators
}

// at is a time in a finding's text.
func at(ns int64) string { return time.Unix(0, ns).UTC().Format("15:04:05.000") }
