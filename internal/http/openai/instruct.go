package openai

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"turnstile/internal/http/gateway"
	"turnstile/internal/protocol/agents"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// instructed returns what a request asks of the model, and its statements. A new session has no key. It asks for nothing, nil, if it has only
// the user's words, or if the token or the session's agent does not allow more; then parse refuses what it has more.
func (a *API) instructed(r *gateway.Request, sessionKey, agent string, data []byte, parse func(free bool) ([]statement, error)) (*session.ModelRequest, []statement, error) {
	if !r.Token.May(gateway.Instruct) {
		all, err := parse(false)
		return nil, all, err
	}
	asks, wrong := parseAsked(data)
	all, err := parse(true)
	plain := !slices.ContainsFunc(all, func(s statement) bool { return s.role != roleUser })
	if wrong = errors.Join(wrong, err); wrong == nil && plain && reflect.ValueOf(asks).IsZero() {
		return nil, all, nil
	}
	if agent == "" && sessionKey != "" && r.Token.Sees(sessionKey) {
		info, err := a.client.Session(sessionKey).Info(r.Work())
		if err != nil {
			return nil, nil, err
		}
		agent = info.Agent
	}
	switch ok, err := a.live.instructable(r.Work(), a.admin, agent); {
	case err != nil:
		return nil, nil, err
	case ok:
		return &asks, all, wrong
	}
	all, err = parse(false)
	return nil, all, err
}

// instructable reports whether every live worker of an agent lets clients instruct it. If "" names it, the
// session's key decides, which only workers know: then it is the default one, or any if there is none.
func (l *liveAgents) instructable(ctx context.Context, operator *admin.Client, agent string) (bool, error) {
	if agent == "" {
		agent = agents.Default
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.look(ctx, operator, agentsFor)
	return l.takes[agent], err
}

// takers are the agents of which each worker takes requests of clients.
func takers(workers []admin.Worker) map[string]bool {
	takes, all := map[string]bool{}, true
	for _, w := range workers {
		for _, name := range w.Agents {
			does := slices.Contains(w.Takes, name)
			before, known := takes[name]
			takes[name], all = does && (before || !known), all && does
		}
	}
	if _, known := takes[agents.Default]; !known {
		takes[agents.Default] = all
	}
	return takes
}
