package simulate

import (
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	"turnstile/pkg/session"
)

// sent is a message and what its sender was told.
type sent struct {
	session, id string
	mode        session.Mode
	routed      bool
	accepted    bool
	at          time.Time        // when its sender was told
	outcome     *session.Outcome // nil: it has not ended
}

// turn is a run of an agent.
type turn struct {
	session, worker string
	fence           int64
	messages        []string
	began, ended    time.Time
}

// post is what the receiver got.
type post struct {
	session, id, kind, body string
	sequence, sent          int64 // sent: by its deliverer's clock, in seconds
	attempt                 int
	messages                []string
	duplicate               bool // it says that the receiver may have handled it
	handled                 bool
	putOff                  bool // the receiver is busy: 429
	at                      time.Time
}

// handled is what the receiver remembers of a session.
type handled struct {
	last int64           // sequence
	by   map[string]post // by delivery: the attempt that was handled
}

// history is what happened in a life.
type history struct {
	mu       sync.Mutex
	began    time.Time
	lines    []string
	sent     []*sent
	turns    []turn
	posts    []post
	handled  map[string]handled // by session
	faults   map[string]int
	running  map[string]string // session -> worker
	findings []string
	calm     time.Time // when it begins; zero: not yet
}

func newHistory() *history {
	return &history{began: time.Now(), handled: map[string]handled{}, faults: map[string]int{}, running: map[string]string{}}
}

// log adds a line. The caller holds mu.
func (h *history) log(format string, args ...any) {
	h.lines = append(h.lines, fmt.Sprintf("%12.6f  ", time.Since(h.began).Seconds())+fmt.Sprintf(format, args...))
}

// found adds a finding. The caller holds mu.
func (h *history) found(rule, format string, args ...any) {
	what := rule + ": " + fmt.Sprintf(format, args...)
	h.log("FOUND %s", what)
	h.findings = append(h.findings, what)
}

func (h *history) finding(rule, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found(rule, format, args...)
}

func (h *history) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log(format, args...)
}

func (h *history) fault(kind, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults[kind]++
	h.log("FAULT "+kind+" "+format, args...)
}

// told records what a sender was told of its message.
func (h *history) told(m *sent, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log("%s is told of %s: %s", m.session, m.id, what)
	m.at = time.Now()
	h.sent = append(h.sent, m)
}

// ended records what a wait returned.
func (h *history) ended(m *sent, o session.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log("%s of %s has ended: %s", m.id, m.session, o.Status)
	m.outcome = &o
}

// begins records the start of an agent. Two agents of a session are a finding, and so is a fence that
// does not rise.
func (h *history) begins(t turn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log("%s begins turn %d of %s with %v", t.worker, t.fence, t.session, t.messages)
	if other, busy := h.running[t.session]; busy {
		h.found("overlap", "%s runs an agent of %s while %s runs one", t.worker, t.session, other)
	}
	h.running[t.session] = t.worker
	for _, before := range h.turns {
		if before.session == t.session && before.fence >= t.fence {
			h.found("fence", "%d of %s comes after %d", t.fence, t.session, before.fence)
		}
	}
	t.began = time.Now()
	h.turns = append(h.turns, t)
}

func (h *history) ends(t turn, how string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log("%s ends turn %d of %s: %s", t.worker, t.fence, t.session, how)
	delete(h.running, t.session)
	for i := range h.turns {
		if h.turns[i].session == t.session && h.turns[i].fence == t.fence {
			h.turns[i].ended = time.Now()
		}
	}
}

// handle is what docs/webhooks.md tells a receiver to do. It counts the effects of each delivery.
func (h *history) handle(p post) {
	h.mu.Lock()
	s, known := h.handled[p.session]
	if !known {
		s.by = map[string]post{}
	}
	one, before := s.by[p.id]
	if before && !p.duplicate && (one.attempt < p.attempt || one.at.Unix() < p.sent) {
		h.found("claim", "delivery %s of %s claims that no attempt of it was handled", p.id, p.session)
	}
	if p.handled = p.sequence > s.last && (!p.duplicate || !before); p.handled {
		if before {
			h.found("effects", "delivery %s of %s is handled twice", p.id, p.session)
		}
		p.at = time.Now()
		s.last, s.by[p.id] = p.sequence, p
		h.handled[p.session] = s
	}
	h.mu.Unlock()
	h.got(p)
}

func (h *history) got(p post) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log("receiver gets %s %d of %s for %v: %v", p.kind, p.sequence, p.session, p.messages, p.handled)
	p.at = time.Now()
	h.posts = append(h.posts, p)
}

// summary is what is told of the life.
func (h *history) summary(seed uint64) Summary {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := strings.Join(h.lines, "\n")
	f := fnv.New64a()
	_, _ = f.Write([]byte(text))
	began, reruns := map[string]bool{}, 0
	for _, t := range h.turns {
		first := t.session + " " + t.messages[0]
		if began[first] {
			reruns++
		}
		began[first] = true
	}
	return Summary{
		Seed: seed, Reruns: reruns, Print: f.Sum64(), Simulated: time.Since(h.began), Faults: h.faults,
		Messages: len(h.sent), Turns: len(h.turns), Posts: len(h.posts),
		Findings: h.findings, History: text,
	}
}
