package gateway

import (
	"net/http"

	"turnstile/pkg/admin"
)

// load is the work for an agent, or for all, and who can do it.
type load struct {
	Slots   int   `json:"slots"`
	Running int64 `json:"running"`
	Waiting int64 `json:"waiting"`
	Wanted  int64 `json:"wanted_slots"`
}

func loadOf(l admin.Load) load { return load{l.Slots, l.Running, l.Waiting, l.Running + l.Waiting} }

// getScale is for autoscalers, which read one number from a JSON document.
func (g *Gateway) getScale(w http.ResponseWriter, r *Request) error {
	if !r.Token.SeesAll() {
		return Fail(Forbidden, `The token %s may not read the load: it counts all sessions, and its "sessions" has no "*".`, r.Token.Name)
	}
	s, err := g.deps.Admin.Scale(r.Work())
	if err != nil {
		return err
	}
	agents := map[string]load{}
	for name, l := range s.Agents {
		agents[name] = loadOf(l)
	}
	return Respond(w, http.StatusOK, struct {
		load
		Oldest float64         `json:"oldest_wait_seconds"`
		Agents map[string]load `json:"agents"`
	}{loadOf(s.Load), s.Oldest.Seconds(), agents})
}
