package checker

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"turnstile/test/history"
)

// Totals count the events of a run.
type Totals struct {
	Messages map[string]int // accepted, refused, unknown
	Sessions int
	Turns    map[string]int // by agent
	Outcomes map[string]int
	Failures map[string]int // by text
	Faults   map[string]int
	Posts    int
	Streams  int // events that followers saw
	Waits    int
	Commands int
	Overlaps int // the excused ones, too
	Reruns   int // turns with a first message that had run before
	Steps    int // that were done
	Stalls   int // of the machine

	// Delays are the waiting times, without their work, of messages that waited during a fault, by
	// the fault's kind. The kind "" is none.
	Delays map[string][]time.Duration
}

func newTotals() Totals {
	return Totals{
		Messages: map[string]int{}, Turns: map[string]int{}, Outcomes: map[string]int{}, Failures: map[string]int{},
		Faults: map[string]int{}, Delays: map[string][]time.Duration{},
	}
}

// add adds another run's totals.
func (t *Totals) add(other Totals) {
	t.Sessions += other.Sessions
	t.Posts += other.Posts
	t.Streams += other.Streams
	t.Waits += other.Waits
	t.Commands += other.Commands
	t.Overlaps += other.Overlaps
	t.Reruns += other.Reruns
	t.Steps += other.Steps
	t.Stalls += other.Stalls
	for _, counts := range [][2]map[string]int{
		{t.Messages, other.Messages}, {t.Turns, other.Turns}, {t.Outcomes, other.Outcomes}, {t.Failures, other.Failures}, {t.Faults, other.Faults},
	} {
		for name, n := range counts[1] {
			counts[0][name] += n
		}
	}
	for name, list := range other.Delays {
		t.Delays[name] = append(t.Delays[name], list...)
	}
}

// Total is the report of several runs.
func Total(reports []Report) Report {
	all := Report{Totals: newTotals()}
	for _, rep := range reports {
		all.Totals.add(rep.Totals)
		all.Findings = append(all.Findings, rep.Findings...)
		all.Losses = append(all.Losses, rep.Losses...)
	}
	return all
}

// numbers differ between two texts of the same failure.
var numbers = regexp.MustCompile(`[0-9]+`)

func (r *run) totals() Totals {
	t := newTotals()
	sessions := map[string]bool{}
	for _, m := range r.sorted {
		sessions[m.session] = true
		switch {
		case m.accepted != 0:
			t.Messages[history.Accepted]++
		case m.was(history.Refused):
			t.Messages[history.Refused]++
		default:
			t.Messages[history.Unknown]++
		}
		if m.final != nil {
			t.Outcomes[cmp.Or(m.final.Status, m.final.Reason)]++
			if m.final.Status != "done" && m.final.Error != "" {
				text := numbers.ReplaceAllString(m.final.Error, "N")
				t.Failures[text[:min(len(text), 80)]]++
			}
		}
	}
	t.Sessions = len(sessions)
	begun := map[key]bool{}
	for _, rec := range r.records {
		switch rec.Kind {
		case history.Turn:
			t.Turns[rec.Via]++
			if rec.Overlap {
				t.Overlaps++
			}
			first := key{rec.Session, rec.IDs[0]}
			if begun[first] {
				t.Reruns++
			}
			begun[first] = true
		case history.Step:
			t.Steps++
		case history.Fault:
			if rec.Error == "" { // it was made
				t.Faults[rec.Name]++
			}
		case history.Post:
			t.Posts++
		case history.Followed:
			t.Streams++
		case history.Wait, history.Response:
			t.Waits++
		case history.Command, history.Operator:
			t.Commands++
		}
	}
	t.Stalls = len(r.stalls)
	r.delays(&t)
	return t
}

func (r *run) delays(t *Totals) {
	ends := map[key]int64{}
	for _, turns := range r.turns {
		for _, rec := range turns {
			for _, id := range rec.IDs {
				k := key{rec.Session, id}
				ends[k] = max(ends[k], rec.At)
			}
		}
	}
	for _, m := range r.sorted {
		end := ends[key{m.session, m.id}]
		if m.accepted == 0 || end == 0 || !m.strict() {
			continue
		}
		from := m.accepted
		if from > end { // its first response was lost, or had the outcome
			from = m.first.At
		}
		took := max(0, time.Duration(end-from-m.first.Work-m.first.Delay))
		hit := false
		seen := map[string]bool{}
		for _, f := range r.faults {
			if f.Since <= end && f.At >= from && !seen[f.Name] {
				seen[f.Name], hit = true, true
				t.Delays[f.Name] = append(t.Delays[f.Name], took)
			}
		}
		if !hit {
			t.Delays[""] = append(t.Delays[""], took)
		}
	}
}

// percentile is the p-th percentile of sorted delays, 0 without any.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)*p/100].Round(time.Millisecond)
}

// Print writes the totals and the findings.
func (rep Report) Print(w io.Writer) {
	t := rep.Totals
	faults := 0
	for _, n := range t.Faults {
		faults += n
	}
	fmt.Fprintf(w, "messages: %s, in %d sessions\n", counts(t.Messages), t.Sessions)
	fmt.Fprintf(w, "outcomes: %s\n", counts(t.Outcomes))
	fmt.Fprintf(w, "not done: %s\n", counts(t.Failures))
	fmt.Fprintf(w, "turns: %s; overlaps %d, again %d; steps: %d\n", counts(t.Turns), t.Overlaps, t.Reruns, t.Steps)
	fmt.Fprintf(w, "commands and operators' calls: %d; waits and responses: %d; events followed: %d; deliveries: %d attempts\n", t.Commands, t.Waits, t.Streams, t.Posts)
	fmt.Fprintf(w, "faults: %d of %d kinds; stalls of the machine: %d\n\n", faults, len(t.Faults), t.Stalls)
	fmt.Fprintf(w, "| fault | times | messages that waited | delay p50 | p99 |\n|---|---|---|---|---|\n")
	for _, name := range append([]string{""}, slices.Sorted(maps.Keys(t.Faults))...) {
		list := slices.Sorted(slices.Values(t.Delays[name]))
		fmt.Fprintf(w, "| %s | %d | %d | %s | %s |\n", cmp.Or(name, "none"), t.Faults[name], len(list), percentile(list, 50), percentile(list, 99))
	}
	fmt.Fprintln(w)
	lost := map[string]int{}
	for _, f := range rep.Losses {
		if lost[f.Rule]++; lost[f.Rule] <= 3 {
			fmt.Fprintln(w, "lost by Redis:", f)
		}
	}
	if len(lost) > 0 {
		fmt.Fprintf(w, "lost by Redis: %s\n", counts(lost))
	}
	byRule := map[string]int{}
	for _, f := range rep.Findings {
		if byRule[f.Rule]++; byRule[f.Rule] <= 10 {
			fmt.Fprintln(w, "FINDING", f)
		}
	}
	if len(rep.Findings) > 0 {
		fmt.Fprintf(w, "findings: %s\n", counts(byRule))
	}
}

func counts(m map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(parts, ", ")
}
