package openai

import (
	"context"

	"turnstile/pkg/session"
)

// openCalls are the calls of the client's functions since the user's last words that have no result yet: how many of
// each ID.
func (a *API) openCalls(ctx context.Context, sessionKey string) (map[string]int, error) {
	of, err := a.transcript(ctx, sessionKey, "")
	if err != nil {
		return nil, err
	}
	open := map[string]int{}
	err = of.turns(ctx, of.length, false, func(turn []session.Entry) bool {
		if turn[len(turn)-1].Ended != nil {
			return true // its agent has forgotten what it brought: see agent.Remembered
		}
		words := false
		for _, e := range turn {
			words = words || e.Role == session.RoleUser && (e.Text != "" || len(e.Attachments) > 0)
			if e.Tool != nil && e.Tool.Client {
				open[e.Tool.CallID]++
			}
			if e.Brought != nil {
				for _, r := range e.Brought.Results {
					open[r.CallID]--
				}
			}
		}
		return !words
	})
	return open, err
}
