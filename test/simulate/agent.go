package simulate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"turnstile/pkg/agent"
)

// recorder is an agent that records its turns. What a turn does depends on the seed, its first message
// and the attempt, not on who runs it.
type recorder struct {
	life *life
	proc *process
}

// Steerable: messages may be steered into its turns.
func (recorder) Steerable() bool { return true }

var (
	errDied  = errors.New("the agent's process died")
	errFlaky = errors.New("the model is overloaded")
	errBad   = errors.New("the request is bad")
)

func (a recorder) Run(ctx context.Context, t agent.Turn, emit func(agent.Event)) (agent.Result, error) {
	if a.proc.isDead() {
		return agent.Result{}, errDied
	}
	var ids []string
	for _, m := range t.Messages {
		ids = append(ids, m.ID)
	}
	this := turn{session: t.Session, worker: a.proc.name, fence: t.Fence, messages: ids}
	a.life.history.begins(this)
	text, err := a.speak(ctx, t, emit)
	how := "done"
	if err != nil {
		how = err.Error()
	}
	a.life.history.ends(this, how)
	return agent.Result{Text: text}, err
}

// speak emits a piece of text now and then, and takes what is steered in.
func (a recorder) speak(ctx context.Context, t agent.Turn, emit func(agent.Event)) (text string, err error) {
	r := newRandom(a.life.seed, fmt.Sprint("agent ", t.Session, t.Messages[0].ID, t.Attempt))
	long := r.about(3 * time.Second)
	calm := a.life.history.isCalmNow()
	switch {
	case !r.chance(25):
	case calm:
		long += 12 * time.Second // longer than a drain waits
	default:
		long += 40 * time.Second // longer than a sentinel lives
	}
	end, fails, flaky := time.Now().Add(long), r.chance(30), r.chance(12) && !calm
	for n := 0; ; n++ {
		wait := min(r.about(700*time.Millisecond), time.Until(end))
		select {
		case <-ctx.Done():
			return text, context.Cause(ctx)
		case <-a.proc.dead:
			return text, errDied
		case s := <-t.Steers:
			s.Accept()
			continue
		case <-time.After(max(wait, 0)):
		}
		switch {
		case time.Now().Before(end):
			piece := fmt.Sprintf("%s.%d ", t.Messages[0].ID, n)
			text += piece
			emit(agent.Event{Type: agent.EventText, Text: piece})
		case fails:
			return text, errBad
		case flaky:
			return text, agent.Retryable(errFlaky)
		default:
			return text, nil
		}
	}
}
