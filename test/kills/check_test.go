//go:build linux

package kills_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"turnstile/pkg/session"
	"turnstile/test/kills"
)

// turn is what Turnstile says of a message.
type turn struct {
	message string
	status  session.Status
	reply   string
	said    int                          // how often the message is in the transcript
	uses    map[string][]session.ToolUse // of the steps, by name
	notices map[string]int               // of unknown steps, by name
	runs    int
	ends    int
}

// step is what the record has of a step.
type step struct {
	started int // starts
	stored  string
	ended   string // nonce of the last end
	nonces  map[string]bool
	keys    []string
}

// report is what a run has shown.
type report struct {
	findings []string

	turns, runs, finished, repeats, unknown, named, namedAgain, begun, lost, twice int
}

func (r *report) finds(format string, args ...any) {
	r.findings = append(r.findings, fmt.Sprintf(format, args...))
}

func (r *report) print(w io.Writer) {
	for _, line := range []struct {
		n    int
		what string
	}{
		{r.turns, fmt.Sprintf("turns of %d steps, in %d runs", kills.Steps, r.runs)},
		{r.finished, fmt.Sprintf("steps finished, in %d starts", r.begun)},
		{r.repeats, "finished steps started again"},
		{r.unknown, fmt.Sprintf("steps of which nobody knows the end, and which do not run again: %d were named once, %d more often, %d never", r.named, r.namedAgain, r.unknown-r.named-r.namedAgain)},
		{r.lost, "messages lost"},
		{r.twice, "messages with two replies"},
	} {
		_, _ = fmt.Fprintf(w, "%8d %s\n", line.n, line.what)
	}
}

// check compares the record of the steps with what Turnstile says of the messages.
func check(acts []kills.Act, turns []turn) (r report) {
	type place struct {
		message string
		n       int
	}
	steps := map[place]*step{}
	keys := map[string]place{}
	for _, a := range acts {
		at := place{a.Message, a.N}
		s := steps[at]
		if s == nil {
			s = &step{nonces: map[string]bool{}}
			steps[at] = s
		}
		switch a.What {
		case kills.Started:
			s.started++
			r.begun++
			if s.stored != "" {
				r.repeats++
				r.finds("%s %s: started after its end was stored", a.Message, kills.Name(a.N))
			}
			if a.Key != "" && !slices.Contains(s.keys, a.Key) {
				s.keys = append(s.keys, a.Key)
			}
			if other, used := keys[a.Key]; a.Key != "" && used && other != at {
				r.finds("%s %s: has the idempotency key of %s %s", a.Message, kills.Name(a.N), other.message, kills.Name(other.n))
			}
			keys[a.Key] = at
		case kills.Ended:
			s.ended = a.Nonce
		case kills.Stored:
			if s.stored != "" && s.stored != a.Nonce {
				r.finds("%s %s: its stored result has changed", a.Message, kills.Name(a.N))
			}
			s.stored = a.Nonce
		}
	}
	for _, t := range turns {
		r.turns++
		r.runs += t.runs
		if t.status != session.StatusDone || t.reply != "done "+t.message && !strings.HasSuffix(t.reply, "done "+t.message) || t.said != 1 {
			r.lost++
			r.finds("%s: ended %s with %q, and is %d times in the transcript", t.message, t.status, t.reply, t.said)
		}
		if t.ends != 1 {
			r.twice++
			r.finds("%s: has ended %d times", t.message, t.ends)
		}
		for n := range kills.Steps {
			s := steps[place{t.message, n}]
			if s == nil {
				s = &step{}
			}
			r.step(t, n, *s)
		}
	}
	return r
}

// step checks a step of a turn.
func (r *report) step(t turn, n int, s step) {
	name := kills.Name(n)
	finds := func(format string, args ...any) {
		r.finds("%s %s: %s", t.message, name, fmt.Sprintf(format, args...))
	}
	uses := t.uses[name]
	if len(uses) != 1 {
		finds("is %d times in the transcript", len(uses))
		return
	}
	if len(s.keys) > 1 {
		finds("had the idempotency keys %q", s.keys)
	}
	runsAgain := kills.Again(n) || kills.Safe(n)
	if s.started > 1 && !runsAgain {
		finds("was started %d times", s.started)
	}
	if uses[0].Error == "" {
		r.finished++
		var result kills.Result
		if err := json.Unmarshal(uses[0].Output, &result); err != nil || result.Nonce != s.ended || result.N != n || s.stored != "" && s.stored != s.ended {
			finds("its result is %s, the last end has %s, and the stored one %s", uses[0].Output, s.ended, s.stored)
		}
		if t.notices[name] > 0 {
			finds("is said to be unknown, and has a result")
		}
		return
	}
	r.unknown++
	switch {
	case runsAgain:
		finds("did not run again: %s", uses[0].Error)
	case s.stored != "":
		finds("its end was stored, and is not known: %s", uses[0].Error)
	}
	switch t.notices[name] {
	case 1:
		r.named++
	case 0:
		finds("nobody knows its end, and no notice says so")
	default:
		r.namedAgain++
		finds("%d notices say that nobody knows its end", t.notices[name])
	}
}

// readRecord returns the lines of the record in their order.
func readRecord(file string) (acts []kills.Act, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		var a kills.Act
		if json.Unmarshal(line, &a) == nil { // else its writer was killed in the middle of it, and nothing came after
			acts = append(acts, a)
		}
	}
	return acts, nil
}

// counts are words with how often each comes.
func counts(words map[string]int) string {
	var all []string
	for _, word := range slices.Sorted(maps.Keys(words)) {
		all = append(all, fmt.Sprintf("%d %s", words[word], word))
	}
	return strings.Join(all, ", ")
}

func total(words map[string]int) (all int) {
	for _, n := range words {
		all += n
	}
	return all
}
