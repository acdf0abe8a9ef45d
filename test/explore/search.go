package explore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// node is a state of all processes and the database.
type node struct {
	db    *snapshot
	at    []*local // of each process; nil: it is over
	told  *told
	fault int // how many there were
}

// kind is the kind of an action.
type kind uint8

const (
	step kind = iota
	crash
	lostCall
	lostReply
	resend
	expiry // of the session with the number in place of the process's
	jump
	tick // the clock, when no process has a step to make
)

// action is a transition: kind and process.
type action uint16

func act(k kind, proc int) action         { return action(proc)<<4 | action(k) }
func (a action) kind() kind               { return kind(a & 15) }
func (a action) proc() int                { return int(a >> 4) }
func (a action) faulty() bool             { return a.kind() != step && a.kind() != tick }
func (a action) executes() bool           { k := a.kind(); return k == step || k == lostReply || k == resend }
func (c *Configuration) has(f Fault) bool { return c.Kinds&f != 0 }

// Search visits every state of a configuration, the nearest first.
type Search struct {
	Config *Configuration
	db     *Database
	player *player
	canon  canon

	seen     map[digest]int32
	parent   []int32  // of each state
	by       []action // the action that led there
	depth    []uint16
	next     []node // states to visit, in order
	first    int    // the number of next's first state
	edges    []edge // without faults
	good     []bool // finished, or not visited for lack of room
	saw      func(cmd []string, reply any, now int64)
	Findings []Finding

	// Transitions is the number of transitions, Deepest the length of the longest path.
	Transitions int
	Deepest     int
	// Whole reports whether all states were visited.
	Whole bool
}

type edge struct{ from, to int32 }

// Finding is a violation.
type Finding struct {
	What     string
	Schedule string   // to replay it, see Search.Replay
	Trace    []string // one line a step
}

func (f Finding) String() string {
	return f.What + "\n  " + strings.Join(f.Trace, "\n  ") + "\n  schedule: " + f.Schedule
}

// NewSearch prepares a search. bubble runs a function in a new synctest bubble.
func NewSearch(c *Configuration, db *Database, bubble func(func())) *Search {
	return &Search{
		Config: c, db: db, player: newPlayer(db, c.Processes, bubble),
		canon: canon{horizon: c.Horizon.Milliseconds()}, seen: map[digest]int32{},
	}
}

// States is the number of states seen.
func (s *Search) States() int { return len(s.parent) }

// beginning is the first state, after Before.
func (s *Search) beginning() (node, error) {
	n := node{db: &snapshot{now: epoch * 1000}, at: make([]*local, len(s.Config.Processes)), told: &told{}}
	if len(s.Config.Before) > 0 {
		all := make([]Process, len(s.Config.Before))
		for i, run := range s.Config.Before {
			all[i] = Process{Name: fmt.Sprint("before ", i), Run: run}
		}
		p := newPlayer(s.db, all, s.player.bubble)
		for i := range all {
			// Names of these lives belong to processes that the search does not have.
			l := p.start(i, 900)
			for l.next != nil {
				db, reply := s.db.do(n.db, l.next.cmds[l.sent])
				before := len(l.facts)
				l = p.part(l, reply)
				n.db, n.told = db, n.told.joined(s.Config, db).with(l.facts[before:])
			}
		}
	}
	for i := range n.at {
		n.at[i] = s.player.start(i, 1)
	}
	return n, nil
}

// Run searches. It ends at the first finding of a transition, or when it has visited all states or
// as many as allowed. Then it checks liveness.
func (s *Search) Run() error {
	first, err := s.beginning()
	if err != nil {
		return err
	}
	s.add(first, -1, 0)
	for len(s.next) > 0 && len(s.Findings) == 0 {
		if most := s.Config.Most; most > 0 && s.first >= most {
			break
		}
		n, number := s.next[0], int32(s.first)
		s.next[0] = node{}
		s.next, s.first = s.next[1:], s.first+1
		if s.Config.finished(View{n.db, n.told}) {
			s.good[number] = true
		}
		if s.Config.Depth > 0 && int(s.depth[number]) >= s.Config.Depth {
			s.good[number] = true // unknown, so it counts as good
			continue
		}
		for _, a := range s.actions(n) {
			to, what := s.take(n, a)
			s.Transitions++
			if what != "" {
				s.report(what, number, a)
				break
			}
			s.reach(number, a, to)
		}
		if what := s.final(n); what != "" {
			s.report(what, number)
		}
	}
	s.Whole = len(s.next) == 0 && s.Config.Depth == 0
	for i := range s.next {
		s.good[s.first+i] = true // unknown, so it counts as good
	}
	if len(s.Findings) == 0 {
		if i := s.stuck(); i >= 0 {
			s.report("from here on, without a further fault, nothing ends what waits", i)
		}
	}
	return nil
}

func (s *Search) reach(from int32, a action, to node) {
	d := s.digestOf(to)
	number, known := s.seen[d]
	if !known {
		number = s.addAs(d, to, from, a)
	}
	if !a.faulty() && number != from {
		s.edges = append(s.edges, edge{from, number})
	}
}

func (s *Search) add(n node, parent int32, by action) { s.addAs(s.digestOf(n), n, parent, by) }

func (s *Search) addAs(d digest, n node, parent int32, by action) int32 {
	number := int32(len(s.parent))
	s.seen[d] = number
	s.parent, s.by, s.good = append(s.parent, parent), append(s.by, by), append(s.good, false)
	var depth uint16
	if parent >= 0 {
		depth = s.depth[parent] + 1
	}
	s.depth = append(s.depth, depth)
	s.Deepest = max(s.Deepest, int(depth))
	s.next = append(s.next, n)
	return number
}

func (s *Search) digestOf(n node) digest {
	forms := make([]*form, 0, len(n.db.keys)+len(n.at)+1)
	for _, l := range n.at {
		if l == nil {
			forms = append(forms, over)
		} else {
			forms = append(forms, l.form)
		}
	}
	for _, v := range n.db.keys {
		forms = append(forms, v.canonical())
	}
	forms = append(forms, n.told.canonical())
	return s.canon.digest(n.db.now, forms, fmt.Sprint(n.fault))
}

var over = newFormer().end()

// can reports whether a process has a step to make.
func (s *Search) can(n node, proc int) bool {
	l := n.at[proc]
	if l == nil || l.next == nil {
		return false
	}
	p := s.Config.Processes[proc]
	if l.next.cmds[0][0] == pause {
		return p.Until(View{n.db, n.told})
	}
	return !l.atStart() || p.When == nil || p.When(View{n.db, n.told})
}

// actions are the transitions from a state.
func (s *Search) actions(n node) (all []action) {
	c, faults := s.Config, n.fault < s.Config.Faults
	quiet, busy := true, false
	for i := range n.at {
		busy = busy || !c.Processes[i].Lazy && s.can(n, i)
	}
	for i := range n.at {
		if p := c.Processes[i]; !s.can(n, i) || p.Lazy && busy && n.at[i].atStart() {
			continue
		}
		quiet = false
		all = append(all, act(step, i))
		if !faults || c.Processes[i].Atomic {
			continue
		}
		for f, k := range map[Fault]kind{LostCall: lostCall, LostReply: lostReply, Resend: resend} {
			// A process relies on nothing yet when it sends its first request.
			if c.has(f) && n.at[i].next.cmds[0][0] != pause && (k != resend || !n.at[i].atStart()) {
				all = append(all, act(k, i))
			}
		}
		if c.has(Crash) && c.Processes[i].Crashes && !n.at[i].atStart() {
			all = append(all, act(crash, i))
		}
	}
	v := View{n.db, n.told}
	next := c.next(v)
	if quiet && next > 0 && (c.Cleans || !c.finished(v)) {
		all = append(all, act(tick, 0))
	}
	if faults && c.has(ClockJump) && !quiet && next > 0 {
		all = append(all, act(jump, 0))
	}
	if faults && c.has(Expiry) {
		for i, key := range c.Sessions {
			if n.db.has(sentinelOf(key)) {
				all = append(all, act(expiry, i))
			}
		}
	}
	slices.Sort(all)
	return all
}

// take makes a transition. Its result what describes the violation after it, or is "".
func (s *Search) take(n node, a action) (to node, what string) {
	to = node{db: n.db, at: slices.Clone(n.at), told: n.told, fault: n.fault}
	if a.faulty() {
		to.fault++
	}
	switch a.kind() {
	case tick, jump:
		to.db = n.db.at(s.Config.next(View{n.db, n.told}))
		return to, ""
	case expiry:
		to.db = n.db.without(sentinelOf(s.Config.Sessions[a.proc()]))
		return to, ""
	case crash:
		to.at[a.proc()] = nil
		s.renew(&to, a.proc())
		return to, ""
	}
	for {
		if what = s.move(&to, a); what != "" {
			return to, what
		}
		if l := to.at[a.proc()]; !s.Config.Processes[a.proc()].Atomic || l == nil || l.atStart() {
			return to, s.wrong(n, to)
		}
	}
}

// move is one step of a process.
func (s *Search) move(to *node, a action) (what string) {
	i := a.proc()
	l := to.at[i]
	var reply any
	if a.executes() {
		cmd, before := l.next.cmds[l.sent], *to
		if cmd[0] == pause {
			reply = int(before.db.now)
		} else {
			to.db, reply = s.db.do(before.db, s.Config.filter(cmd))
		}
		if s.saw != nil {
			s.saw(cmd, reply, to.db.now)
		}
		if what = s.broken(before, to.db, cmd, reply); what != "" {
			return what
		}
		to.told = to.told.joined(s.Config, to.db)
	}
	next := s.moved(a, l, reply)
	if len(next.facts) > len(l.facts) {
		to.told = to.told.with(next.facts[len(l.facts):])
	}
	to.at[i] = next
	if next.next == nil {
		to.at[i] = nil
		s.renew(to, i)
	}
	return ""
}

// renew begins another life of a process that loops, with a number that no name in the state has.
func (s *Search) renew(n *node, proc int) {
	if !s.Config.Processes[proc].Loops {
		return
	}
	used := map[int]bool{}
	look := func(f *form) {
		for _, r := range f.refs {
			if r.name != "" {
				if p, number := lifeOf(r.name); p == proc {
					used[number] = true
				}
			}
		}
	}
	for _, v := range n.db.keys {
		look(v.canonical())
	}
	for _, l := range n.at {
		if l != nil {
			look(l.form)
		}
	}
	number := 1
	for used[number] {
		number++
	}
	n.at[proc] = s.player.start(proc, number)
}

// errSchedule is wrapped if a schedule does not fit its configuration.
var errSchedule = errors.New("not a schedule of this configuration")
