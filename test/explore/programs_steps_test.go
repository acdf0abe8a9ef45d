package explore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"turnstile"

	sq "turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/explore"
)

// stepping is a turn with steps, which goes on after the last stored one, as with the agent model. What the
// behaviour has besides comes after the turn's first own step.
type stepping struct {
	life     *explore.Life
	claim    *sq.Claim
	turn     sq.ClaimedTurn
	does     behaviour
	steps    map[string]string // the stored ones
	entries  []session.Entry
	messages []string // whose words are in the entries
	lead     int
	stored   int   // entries that this run has stored
	last     []any // its last write, as a command
}

// The records of steps. A longer one is later.
const (
	stepBegun = "begun"
	stepEnded = "has ended"
)

func newStepping(l *explore.Life, h *sq.Claim, a behaviour, kept *sq.Journal) *stepping {
	s := &stepping{life: l, claim: h, turn: h.Turn(), does: a, steps: map[string]string{}}
	for _, m := range s.turn.Messages() {
		s.messages = append(s.messages, m.Message.ID)
		s.entries = append(s.entries, session.Entry{Role: session.RoleUser, Text: m.Message.Text, Message: m.Message.ID})
	}
	s.lead = len(s.messages)
	if kept != nil && len(kept.Steps) > 0 {
		if s.turn.First() && !a.waits {
			l.Report("foreign", s.turn.Message.ID)
		}
		s.steps, s.entries, s.lead = kept.Steps, kept.Entries[:kept.Closed], kept.Lead
	}
	return s
}

func (s *stepping) run(c *actors.Consumer) (more bool, err error) {
	ctx, own := s.claim.Lease().Context(), 0
	for n := range s.does.steps {
		key := fmt.Sprint("step", n+1)
		if s.steps[key] == stepEnded {
			continue
		}
		if s.waits() && n == 1 {
			if over, more, err := s.wait(ctx); over {
				return more, err
			}
		}
		if s.steps[key] == "" {
			s.life.Report("new", s.turn.Message.ID, key, s.turn.Fence)
			if err := s.write(ctx, key, stepBegun); err != nil {
				return false, err
			}
		}
		s.entries = append(s.entries, session.Entry{Role: session.RoleTool, Text: key})
		if err := s.write(ctx, key, stepEnded); err != nil {
			return false, err
		}
		s.life.Report("stored", s.turn.Message.ID, key, s.turn.Fence)
		if own++; own == 1 {
			if more, over, err := s.between(ctx, c); over {
				return more, err
			}
		}
	}
	return s.ends(s.claim.Finish(ctx, sq.End{Status: session.StatusDone, Reply: "done", Entries: s.all()}))
}

// between is what happens between two steps. over: the turn is.
func (s *stepping) between(ctx context.Context, c *actors.Consumer) (more, over bool, err error) {
	switch {
	case s.does.drains:
		c.Mark(s.life.Context, []*sq.Claim{s.claim}, "shutdown_timeout")
		more, err = s.ends(endRequested(s.claim, s.claim.Park(ctx, sq.Parking{Interrupted: "shutdown_timeout"}), s.all()))
		return more, true, err
	case s.turn.Attempt <= s.does.fails:
		more, err = s.ends(endRequested(s.claim, s.claim.Park(ctx, sq.Parking{Failed: errors.New("it did not work"), Wait: time.Second}), s.all()))
		return more, true, err
	case !s.does.renews:
		return false, false, nil
	}
	for _, r := range c.Renew(s.life.Context, []*sq.Claim{s.claim}) {
		if r.Requested != nil && r.Fence == s.turn.Fence {
			more, err = s.ends(endRequested(s.claim, r.Requested, s.all()))
			return more, true, err
		}
		if !r.Steer || !s.does.steers {
			continue
		}
		steered, err := s.claim.Steer(ctx)
		if err != nil {
			return false, true, err
		}
		for _, m := range steered {
			s.messages = append(s.messages, m.Message.ID)
			s.entries = append(s.entries, session.Entry{Role: session.RoleUser, Text: m.Message.Text, Message: m.Message.ID})
		}
	}
	return false, false, nil
}

// wait asks before the second step, or waits for a program's value, and parks the turn until there is one. After a
// second without one it is denied.
func (s *stepping) wait(ctx context.Context) (over, more bool, err error) {
	asked, err := s.put(ctx)
	switch {
	case err != nil:
		return true, false, err
	case s.asked(asked.Question) && asked.Decision == "" && asked.Age < time.Second:
		more, err = s.ends(endRequested(s.claim, s.claim.Park(ctx, sq.Parking{Question: asked.Question, Wait: time.Second - asked.Age}), s.all()))
		return true, more, err
	case asked.Decision == "":
		if asked.Decided, err = s.claim.Deny(ctx, "pay"); err != nil {
			return true, false, err
		}
		if s.does.value && asked.Decision == sq.Given { // it came this moment
			if asked, err = s.put(ctx); err != nil {
				return true, false, err
			}
		}
		if asked.Decision == "" {
			asked.Decision = session.Deny
		}
	}
	if value, ok := asked.Value(); ok {
		asked.Decision = session.Decision(value)
	}
	s.life.Report("got", asked.Question, asked.Decision)
	return false, false, nil
}

// waits reports whether the turn waits: for a value the first one alone, so that programs give it to no other.
func (s *stepping) waits() bool { return s.does.waits && (!s.does.value || s.turn.Message.ID == "m1") }

// put stores the question, or the wait.
func (s *stepping) put(ctx context.Context) (sq.Asked, error) {
	if s.does.value {
		return s.claim.WaitFor(ctx, "pay", "secret", false, 0)
	}
	return s.claim.AskFor(ctx, "pay", session.Question{Name: "pay"})
}

// asked reports the question's number.
func (s *stepping) asked(number int) bool {
	s.life.Report("asked", s.turn.Message.ID, number)
	return true
}

// decider allows the question, whichever is open.
func decider() explore.Process {
	return explore.Process{Name: "decider", Crashes: true, Run: func(l *explore.Life) {
		if _, err := actors.NewClient(l.Redis).Session(main).Decide(l.Context, "1", session.Allow); err == nil {
			l.Report("allowed", "pay")
		}
	}}
}

// giver gives a value to the turn that waits.
func giver(name, value string) explore.Process {
	return explore.Process{Name: name, Crashes: true, Run: func(l *explore.Life) {
		err := actors.NewClient(l.Redis).Session(main).Give(l.Context, turnstile.Value{Key: "pay", Secret: "secret", JSON: []byte(value)})
		if err == nil {
			l.Report("given", value)
		}
	}}
}

// valueKept finds a value that was acknowledged and that the agent has not got, and two that were.
func valueKept(v explore.View) string {
	given := ""
	for _, f := range v.Facts() {
		switch words := strings.Fields(f); {
		case words[0] == "given" && given != "":
			return "value: two programs were told that theirs counts"
		case words[0] == "given":
			given = words[1]
		}
	}
	for _, f := range v.Facts() {
		if words := strings.Fields(f); words[0] == "got" && given != "" && words[2] != given {
			return "value: a program was told that its value " + given + " counts, and the agent got " + words[2]
		}
	}
	return stepsKept(v)
}

// decisionKept finds a decision that was acknowledged and that the agent has not got, and a question that a turn's
// next run asks under another number.
func decisionKept(v explore.View) string {
	numbers := map[string]string{}
	for _, f := range v.Facts() {
		if words := strings.Fields(f); words[0] == "asked" {
			if n := numbers[words[1]]; n != "" && n != words[2] {
				return "decision: the question of " + words[1] + " is asked twice, as " + n + " and " + words[2]
			}
			numbers[words[1]] = words[2]
		}
	}
	if v.Told("allowed pay") && v.Told("got 1 deny") {
		return "decision: the user was told that it is allowed, and the agent that it is not"
	}
	return stepsKept(v)
}

// write stores a step and the new entries, in a run's first write all.
func (s *stepping) write(ctx context.Context, key, state string) error {
	w := sq.JournalWrite{
		Entries: map[int]session.Entry{}, Count: len(s.entries), HasSteps: true, Closed: len(s.entries), Progress: state == stepEnded,
		Messages: s.messages, Lead: s.lead, Steps: map[string]string{key: state},
	}
	for i := s.stored; i < len(s.entries); i++ {
		w.Entries[i] = s.entries[i]
	}
	_, err := s.claim.Journal(ctx, w)
	if err == nil {
		s.stored, s.steps[key] = len(s.entries), state
		last := s.last
		s.last = s.life.Last("journal")
		s.again(last)
	}
	return err
}

// again sends a write that comes late.
func (s *stepping) again(write []any) {
	if s.does.late && write != nil {
		s.life.Redis.Do(s.life.Context, write...)
	}
}

// ends sends the last write behind the turn's end.
func (s *stepping) ends(more bool, err error) (bool, error) {
	s.again(s.last)
	return more, err
}

// all are the turn's entries in the transcript.
func (s *stepping) all() (all []session.Entry) {
	for _, e := range s.entries {
		e.Turn = s.turn.ID
		all = append(all, e)
	}
	return append(all, session.Entry{Role: session.RoleAssistant, Text: "done", Turn: s.turn.ID})
}

// stepsKept finds an acknowledged end of a step that a later run of the turn has not got, one that is not
// in the journal of the turn that still runs, and a turn with steps whose message waits in the queue.
func stepsKept(v explore.View) string {
	k := rediskey.For(main)
	for _, f := range v.Facts() {
		words := strings.Fields(f)
		if words[0] == "foreign" {
			return "steps: the first turn of " + words[1] + " has got steps"
		}
		if words[0] != "stored" {
			continue
		}
		if v.Field(k.Run(), "fence") == words[3] && v.Field(k.Run(), "phase") == "running" && v.Field(k.Journal(), "s:"+words[2]) != stepEnded {
			return "steps: the end of " + words[2] + " was acknowledged, and is not stored"
		}
		if v.Field(k.Task(rediskey.TaskID(main, words[1])), "state") == "pending" {
			return "steps: " + words[1] + " waits in the queue, though its turn has begun"
		}
		for _, g := range v.Facts() {
			if later := strings.Fields(g); later[0] == "new" && later[1] == words[1] && later[2] == words[2] && later[3] > words[3] {
				return "steps: " + words[2] + " of " + words[1] + " has ended, and runs again"
			}
		}
	}
	return ""
}
