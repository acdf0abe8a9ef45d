package lab

import (
	"context"

	"turnstile/pkg/agent"
)

// Parked is an agent with turns that wait until they are interrupted, and then end at once. Both
// functions may be nil.
type Parked struct {
	Started     func(turn *agent.Turn)
	Interrupted func(turn *agent.Turn)
}

// Run implements agent.Agent.
func (p Parked) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	if p.Started != nil {
		p.Started(turn)
	}
	<-ctx.Done()
	if p.Interrupted != nil {
		p.Interrupted(turn)
	}
	return agent.Result{}, context.Cause(ctx)
}
