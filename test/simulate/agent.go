package simulate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/history"
)

// recorder is an agent that records its turns. A turn's work depends on the seed, its first message and
// the attempt, and not on the worker.
type recorder struct {
	life *life
	proc *process
}

// Traits says that messages may be steered into its turns.
func (recorder) Traits() agent.Traits { return agent.Traits{Steerable: true} }

var (
	errDied  = errors.New("the agent's process died")
	errFlaky = errors.New(history.ToldToRetry)
	errBad   = errors.New(history.ToldToFail)
)

func (a recorder) Run(ctx context.Context, t *agent.Turn) (agent.Result, error) {
	if a.proc.isDead() {
		return agent.Result{}, errDied
	}
	this := history.Record{
		Kind: history.Turn, Session: t.Session, SID: t.TranscriptID, Turn: t.ID, Fence: t.Fence, Attempt: t.Attempt,
		Via: history.Inside, Target: a.proc.name, Since: time.Now().UnixNano(),
	}
	for _, m := range t.Messages {
		this.IDs = append(this.IDs, m.ID)
	}
	for _, e := range t.History {
		if e.Role == session.RoleUser {
			this.Seen = append(this.Seen, e.Message)
		}
	}
	p := a.plan(t)
	this.Plan, this.Overlap = p.end, a.life.enters(t.Session)
	a.life.log.Add(this)
	var text string
	err := a.steps(ctx, t)
	if err == nil {
		err = a.wait(ctx, t)
	}
	if err == nil {
		text, err = a.speak(ctx, t, p)
	}
	this.Kind, this.Seen, this.Status = history.Ended, nil, "done"
	switch {
	case errors.Is(err, agent.ErrParked):
		this.Status = history.Parked
	case err != nil:
		this.Status = err.Error()
	}
	a.life.leaves(t.Session)
	a.life.log.Add(this)
	return agent.Result{Text: text}, err
}

// enters counts an agent of a session, and reports whether another one runs.
func (l *life) enters(session string) (overlap bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[session]++
	return l.running[session] > 1
}

func (l *life) leaves(session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[session]--
}

// plan is a turn's work and how it ends.
type plan struct {
	rng  *random
	work time.Duration
	end  string // history.End...
}

func (a recorder) plan(t *agent.Turn) plan {
	r, calm := newRandom(a.life.seed, fmt.Sprint("agent ", t.Session, t.Messages[0].ID, t.Attempt)), a.life.isCalm.Load()
	p := plan{rng: r, work: r.about(3 * time.Second), end: history.EndOK}
	switch {
	case !r.chance(25):
	case calm:
		p.work += 12 * time.Second // longer than a drain waits
	default:
		p.work += 40 * time.Second // longer than a sentinel lives
	}
	switch fails, flaky := r.chance(30), r.chance(12) && !calm; {
	case fails:
		p.end = history.EndFail
	case flaky:
		p.end = history.EndRetry
	}
	return p
}

// steps does the turn's steps. Each has another answer to the question whether it may be done again.
func (a recorder) steps(ctx context.Context, t *agent.Turn) error {
	r := newRandom(a.life.seed, fmt.Sprint("steps ", t.Session, t.Messages[0].ID))
	for n := range r.below(5) {
		spec := agent.StepSpec{Key: fmt.Sprint(t.Messages[0].ID, "-", n), Safe: n%3 == 1, RunAgain: n%3 == 2}
		rec := history.Record{Session: t.Session, ID: t.Messages[0].ID, Turn: t.ID, Name: spec.Key, Via: history.Inside}
		_, err := agent.Step(ctx, t, spec, func(ctx context.Context, key string) (string, error) {
			did := rec
			did.Kind, did.Again, did.Sum = history.Step, spec.Safe || spec.RunAgain, key
			a.life.log.Add(did)
			select {
			case <-ctx.Done():
				return "", context.Cause(ctx)
			case <-a.proc.dead:
				return "", agent.Retryable(errDied)
			case <-time.After(r.about(500 * time.Millisecond)):
				return "done", nil
			}
		})
		if err != nil && !errors.Is(err, agent.ErrStepUnknown) {
			return err
		}
		rec.Kind = history.Stepped
		a.life.log.Add(rec)
	}
	return nil
}

// speak emits a piece of text from time to time, and accepts steers.
func (a recorder) speak(ctx context.Context, t *agent.Turn, p plan) (text string, err error) {
	say := func(piece string) {
		text += piece
		t.Emit(agent.Event{Type: session.EventText, Text: piece})
	}
	var ids []string
	for _, m := range t.Messages {
		ids = append(ids, m.ID)
	}
	end := time.Now().Add(p.work)
	for n := 0; ; n++ {
		wait := min(p.rng.about(700*time.Millisecond), time.Until(end))
		select {
		case <-ctx.Done():
			return text, context.Cause(ctx)
		case <-a.proc.dead:
			return text, errDied
		case s := <-t.Steers():
			s.Accept()
			a.life.log.Add(history.Record{Kind: history.Steered, Session: t.Session, ID: s.Message.ID, Turn: t.ID, Via: history.Inside, Plan: p.end})
			ids, text = append(ids, s.Message.ID), "" // the reply begins after it
			continue
		case <-time.After(max(wait, 0)):
		}
		switch {
		case time.Now().Before(end):
			say(history.Piece(ids[0], n))
		case p.end == history.EndFail:
			return text, errBad
		case p.end == history.EndRetry:
			return text, agent.Retryable(errFlaky)
		default:
			say(history.Reply(ids))
			return text, nil
		}
	}
}
