package protocol_test

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// line is what dispatch.lua does, written a second time from docs/internals/design.md, for TestLifeOfTheLine.
type line struct {
	inbox  map[string]bool
	places map[string]*lined // those that were sorted
	holds  map[string]hold   // those that run and count for a limit
	caps   map[string]int
	tags   map[string]int  // by agent and tenant: the tag of its last session; by agent: that of the last one that was taken
	looks  map[string]bool // limits to look at when something is released: they have room that nobody used
}

type lined struct {
	agent  string
	limits []string
	tag    int
	behind string // the limit that holds it back, "": it is in its agent's queue
}

type hold struct {
	token  string
	limits []string
}

func newLine() *line {
	return &line{inbox: map[string]bool{}, places: map[string]*lined{}, holds: map[string]hold{}, caps: map[string]int{}, tags: map[string]int{}, looks: map[string]bool{}}
}

// tenant and agent of a session "TENANT:AGENT:N".
func tenantOf(session string) string { return strings.Split(session, ":")[0] }
func agentOf(session string) string  { return strings.Split(session, ":")[1] }

// cap returns a limit's cap, and whether it has one.
func (l *line) cap(limit string) (int, bool) {
	if n, ok := l.caps[limit]; ok {
		return n, true
	}
	kind, _, _ := strings.Cut(limit, ":")
	n, ok := l.caps[kind+":*"]
	return n, ok
}

// counts returns how many sessions hold a limit.
func (l *line) counts(limit string) (n int) {
	for _, h := range l.holds {
		if slices.Contains(h.limits, limit) {
			n++
		}
	}
	return n
}

func (l *line) full(session, limit string) bool {
	if limit == "session:"+session {
		_, held := l.holds[session]
		return held
	}
	most, ok := l.cap(limit)
	return ok && l.counts(limit) >= most
}

// sort takes the sessions of the inbox, in that order.
func (l *line) sort(arrived []string, share func(tenant string) int, limits func(session string) []string) {
	for _, s := range arrived {
		delete(l.inbox, s)
		if l.places[s] != nil {
			continue
		}
		of := agentOf(s) + " " + tenantOf(s)
		l.tags[of] = max(l.tags[agentOf(s)], l.tags[of]) + share(tenantOf(s))
		l.places[s] = &lined{agent: agentOf(s), limits: limits(s), tag: l.tags[of]}
	}
}

// letOn moves those that a limit need not hold back any more into the queues: as many as it has room for, the lowest tags
// first.
func (l *line) letOn(looked []string) {
	for limit := range l.looks {
		if !slices.Contains(looked, limit) {
			looked = append(looked, limit)
		}
	}
	clear(l.looks)
	for _, limit := range looked {
		var behind []string
		for _, s := range slices.SortedFunc(maps.Keys(l.places), l.order) {
			if l.places[s].behind == limit {
				behind = append(behind, s)
			}
		}
		room := 100
		if s, ok := strings.CutPrefix(limit, "session:"); ok {
			room = 1
			if l.full(s, limit) {
				room = 0
			}
		} else if most, ok := l.cap(limit); ok {
			room = most - l.counts(limit)
		}
		for _, s := range behind[:max(0, min(room, len(behind)))] {
			l.places[s].behind = ""
		}
	}
}

// end ends a hold, and returns the limits to look at.
func (l *line) end(session string) []string {
	h, ok := l.holds[session]
	if !ok {
		return nil
	}
	delete(l.holds, session)
	return append(h.limits, "session:"+session)
}

func (l *line) order(a, b string) int {
	return cmp.Or(cmp.Compare(l.places[a].tag, l.places[b].tag), cmp.Compare(a, b))
}

// take takes sessions for a worker with these agents.
func (l *line) take(most int, named, token string, agents []string) (found []string) {
	clock := 0
	for len(found) < most {
		next := ""
		for _, agent := range agents { // of equal tags the first agent's
			for _, s := range slices.SortedFunc(maps.Keys(l.places), l.order) {
				p := l.places[s]
				if p.agent == agent && p.behind == "" && (named == "" || s == named) && (next == "" || p.tag < l.places[next].tag) {
					next = s
				}
			}
		}
		if next == "" {
			break
		}
		p := l.places[next]
		full, h := "", hold{token: token}
		for _, limit := range append([]string{"session:" + next}, p.limits...) {
			if l.full(next, limit) {
				full = cmp.Or(full, limit)
			} else if _, ok := l.cap(limit); ok {
				h.limits = append(h.limits, limit)
			}
		}
		if full != "" {
			p.behind = full
			for _, limit := range h.limits {
				l.looks[limit] = true
			}
			continue
		}
		delete(l.places, next)
		clock = max(clock, p.tag)
		found = append(found, next)
		if len(h.limits) > 0 {
			l.holds[next] = h
		}
	}
	for _, agent := range agents {
		if named == "" {
			l.tags[agent] = max(l.tags[agent], clock)
		}
	}
	if len(l.places) == 0 {
		clear(l.tags)
	}
	return found
}
