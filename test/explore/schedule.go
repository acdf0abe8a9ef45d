package explore

import (
	"fmt"
	"slices"
	"strings"
)

var kindNames = [...]string{"", "!crash", "!lost-call", "!lost-reply", "!resend", "!expiry", "!jump", "clock"}

// name is an action as a word of a schedule: "worker1", "worker1!crash", "clock".
func (s *Search) name(a action) string {
	switch a.kind() {
	case tick, jump:
		return kindNames[a.kind()]
	case expiry:
		return s.Config.Sessions[a.proc()] + kindNames[expiry]
	}
	return s.Config.Processes[a.proc()].Name + kindNames[a.kind()]
}

func (s *Search) parse(word string) (action, error) {
	name, k := word, step
	for i, suffix := range kindNames[1:] {
		if rest, ok := strings.CutSuffix(word, suffix); ok {
			name, k = rest, kind(i+1)
		}
	}
	switch k {
	case tick, jump:
		return act(k, 0), nil
	case expiry:
		if i := slices.Index(s.Config.Sessions, name); i >= 0 {
			return act(k, i), nil
		}
	default:
		for i, p := range s.Config.Processes {
			if p.Name == name {
				return act(k, i), nil
			}
		}
	}
	return 0, fmt.Errorf("%w: %q", errSchedule, word)
}

// report keeps a finding at a state, or at an action from there.
func (s *Search) report(what string, at int32, last ...action) {
	schedule := s.words(slices.Concat(s.path(at), last))
	f := Finding{What: what, Schedule: schedule}
	// The steps are made again for the trace. A test checks that they lead to the same finding.
	if r, err := s.Replay(schedule, nil); err == nil {
		f.Trace = r.Trace
	}
	s.Findings = append(s.Findings, f)
}

func (s *Search) words(path []action) string {
	words := make([]string, len(path))
	for i, a := range path {
		words[i] = s.name(a)
	}
	return strings.Join(words, " ")
}

// Sample are the schedules that lead to n of the states, spread over all. With still the clock does
// not advance in them.
func (s *Search) Sample(n int, still bool) (schedules []string) {
	for i := range n {
		for at := len(s.parent) - 1 - i*len(s.parent)/n; at >= 0; at-- {
			path := s.path(int32(at))
			if still && slices.ContainsFunc(path, func(a action) bool { return a.kind() == tick || a.kind() == jump }) {
				continue
			}
			schedules = append(schedules, s.words(path))
			break
		}
	}
	return schedules
}

// path is the shortest way to a state, because the search goes breadth first.
func (s *Search) path(at int32) (path []action) {
	for ; s.parent[at] >= 0; at = s.parent[at] {
		path = append(path, s.by[at])
	}
	slices.Reverse(path)
	return path
}

// Replayed is the result of a schedule.
type Replayed struct {
	Trace []string
	What  string // the violation after the last step
	node  node
	steps []executed
}

// Calls are the names of the commands and scripts that a replay has sent.
func (r *Replayed) Calls() (names []string) {
	for _, e := range r.steps {
		names = append(names, CommandName(e.cmd))
	}
	return names
}

// executed is a command of a replay and its reply.
type executed struct {
	cmd   []string
	reply any
	now   int64
}

// Replay makes only the steps of a schedule. see is called before each, and may be nil.
func (s *Search) Replay(schedule string, see func(step int, v View)) (*Replayed, error) {
	n, err := s.beginning()
	if err != nil {
		return nil, err
	}
	r := &Replayed{}
	for i, word := range strings.Fields(schedule) {
		a, err := s.parse(word)
		if err != nil {
			return nil, err
		}
		if see != nil {
			see(i, View{n.db, n.told})
		}
		if !slices.Contains(s.actions(n), a) && (!a.faulty() || a.kind() <= resend && !s.can(n, a.proc())) {
			return nil, fmt.Errorf("%w: %q cannot happen in step %d", errSchedule, word, i+1)
		}
		first := true
		s.saw = func(cmd []string, reply any, now int64) {
			r.steps = append(r.steps, executed{cmd, reply, now})
			r.Trace = append(r.Trace, fmt.Sprintf("%3d  %-18s %s -> %s", i+1, word, s.brief(cmd), briefReply(reply)))
			first = false
		}
		was := n
		to, what := s.take(n, a)
		n, s.saw = to, nil
		switch {
		case a.kind() == tick || a.kind() == jump:
			r.Trace = append(r.Trace, fmt.Sprintf("%3d  %-18s +%d ms", i+1, word, n.db.now-was.db.now))
		case first:
			r.Trace = append(r.Trace, fmt.Sprintf("%3d  %s", i+1, word))
		}
		for _, f := range n.told.facts {
			if !was.told.has(f) {
				r.Trace[len(r.Trace)-1] += "  [" + f + "]"
			}
		}
		if what != "" {
			r.What, r.node = what, n
			return r, nil
		}
	}
	r.node = n
	if r.What = s.final(n); r.What == "" {
		r.What = s.wrong(n, n)
	}
	return r, nil
}

// brief is a command in a few words.
func (s *Search) brief(cmd []string) string {
	words := slices.Clone(cmd)
	if strings.EqualFold(cmd[0], "evalsha") {
		name := s.db.scripts.name(cmd[1])
		words = append([]string{name}, cmd[3+int(whole(cmd[2])):]...)
	}
	for i, w := range words {
		words[i] = clip(w, 40)
	}
	return clip(strings.Join(words, " "), 110)
}

func briefReply(reply any) string {
	switch r := reply.(type) {
	case nil:
		return "nil"
	case []any:
		words := make([]string, len(r))
		for i := range r {
			words[i] = briefReply(r[i])
		}
		return clip("{"+strings.Join(words, ", ")+"}", 110)
	case string:
		return clip(fmt.Sprintf("%q", r), 40)
	}
	return fmt.Sprint(reply)
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n-2] + ".."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '.'
		}
		return r
	}, s)
}
