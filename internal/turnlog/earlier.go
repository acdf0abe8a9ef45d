package turnlog

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// TakeOver takes over the steps and counts of earlier runs of the turn, and returns the steps that have ended. Whether
// the turn goes on from their entries is said by GoOn and Inherit.
func (l *Log) TakeOver(j *protocol.Journal) (ended []agent.StepRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range j.Entries {
		if e.Tool != nil && endedUse(e.Tool) {
			l.earlier[sameUse(e.Tool)] = true
		}
	}
	l.stepped, l.origin, l.ran, l.usage = len(j.Steps) > 0, j.Origin, j.Ran, j.Usage
	for key, text := range j.Steps {
		s := &step{}
		if json.Unmarshal([]byte(text), &s.stepRecord) != nil {
			s.stepRecord = stepRecord{} // of another version: it may have happened
		}
		s.size = len(text)
		l.known[key], l.bytes = s, l.bytes+s.size
		l.equal[same(s.stepRecord)] = max(l.equal[same(s.stepRecord)], s.Equal+1)
		if s.State == stepEnded {
			ended = append(ended, agent.StepRecord{Key: key, State: agent.StepDone, Output: s.Output, Error: s.Error, Turn: s.Turn})
		}
	}
	return ended
}

// GoOn takes over the entries of earlier runs from which the turn goes on. recap is the history that the first run with
// steps had from a run before it, kept are the items of the others.
func (l *Log) GoOn(j *protocol.Journal) (recap, kept []session.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = true
	messages := l.turn.Messages()
	begun := j.Messages[:min(j.Lead, len(j.Messages))]
	for _, m := range messages[1:] {
		if !slices.Contains(begun, m.Message.ID) {
			l.later++
		}
	}
	entries, from := j.Entries[:j.Closed], min(j.Lead, j.Closed)
	if from > 0 && !entries[0].At.IsZero() {
		l.began = entries[0].At.UnixMilli()
	}
	for i := len(entries) - 1; i >= from && recap == nil; i-- {
		if entries[i].Interrupted {
			recap = entries[:i+1]
			l.inherit(recap[from:])
			from = i + 1
		}
	}
	for _, e := range entries[from:] {
		if e.Role == session.RoleUser && !slices.ContainsFunc(messages, func(m protocol.Taken) bool { return m.Message.ID == e.Message }) {
			continue // it was cancelled
		}
		if e.Turn != l.turn.ID && e.Tool != nil && e.Tool.Run == "" {
			use := *e.Tool
			use.Run, e.Tool = e.Turn, &use
		}
		e.Turn = l.turn.ID // so that /undo removes it with the turn
		l.append(e)
		kept = append(kept, e)
		if t := e.Tool; t != nil && !endedUse(t) {
			l.open[t.CallID] = append(l.open[t.CallID], len(l.made)-1)
			l.announced[t.CallID]++
		}
	}
	l.standing = len(l.made)
	return recap, kept
}

// NoOutput is called if no output of earlier runs is there: then no agent has taken the steers.
func (l *Log) NoOutput() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.later = len(l.turn.Messages()) - len(l.turn.Starters())
}

// Inherit takes over the entries of an earlier, interrupted run of the turn, which begins again.
func (l *Log) Inherit(j *protocol.Journal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inherit(j.Entries)
}

// inherit takes over entries. They belong to this turn now, so that /undo removes them with it. Users' entries are left
// out: a run that begins again has the turn's messages before them.
func (s *entries) inherit(earlier []session.Entry) {
	for _, e := range earlier {
		if e.Role != session.RoleUser {
			e.Turn = s.turn.ID
			s.before = append(s.before, e)
		}
	}
	if n := len(s.before); n > 0 {
		s.before[n-1].Interrupted = true
	}
}

// unused are the tools of earlier runs to which this run, which began the turn again, has not come. They have had their
// effects, also if it never comes to them.
func (l *Log) unused() (tools []session.Entry) {
	for key, s := range l.known {
		if l.kept || s.used || s.Hidden || s.size == 0 || s.Name == "" || s.State == stepFailed {
			continue
		}
		use := &session.ToolUse{
			Name: s.Name, CallID: key, Input: s.Input, Output: s.Output, Error: s.Error, Run: s.Turn,
			Took: session.Millis(time.Duration(s.Took) * time.Millisecond), Decision: s.Decision, By: s.By,
		}
		tools = append(tools, session.Entry{Role: session.RoleTool, Turn: l.turn.ID, At: atMS(s.At), Tool: use})
	}
	slices.SortFunc(tools, func(a, b session.Entry) int {
		return cmp.Or(a.At.Compare(b.At.Time), cmp.Compare(a.Tool.CallID, b.Tool.CallID))
	})
	return tools
}
