package openai

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"turnstile/internal/http/gateway"
	"turnstile/internal/protocol/agents"
	"turnstile/pkg/admin"
)

// model is a model that requests may name.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Owner   string `json:"owned_by"`
}

// models are the agents of the live workers, or of those that lived last: those that the token may name, and what the
// default ones are.
func (a *API) models(r *gateway.Request) ([]model, error) {
	workers, err := a.live.workersOf(r.Work(), a.admin)
	if err != nil {
		return nil, err
	}
	models := []model{}
	add := func(name string, worker admin.Worker) {
		if name != "" && !slices.ContainsFunc(models, func(m model) bool { return m.ID == name }) {
			models = append(models, model{name, "model", worker.Started.Unix(), "turnstile"})
		}
	}
	for _, worker := range workers {
		add(worker.Agent, worker)
		for _, name := range worker.Agents {
			if name != agents.Default && r.Token.May(gateway.Agent) {
				add(name, worker)
			}
		}
	}
	return models, nil
}

// getModels lists the models.
func (a *API) getModels(w http.ResponseWriter, r *gateway.Request) error {
	models, err := a.models(r)
	if err != nil {
		return err
	}
	return gateway.Respond(w, http.StatusOK, struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", models})
}

// getModel returns one of the models.
func (a *API) getModel(w http.ResponseWriter, r *gateway.Request) error {
	models, err := a.models(r)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	if i := slices.IndexFunc(models, func(m model) bool { return m.ID == id }); i >= 0 {
		return gateway.Respond(w, http.StatusOK, models[i])
	}
	param := "model"
	return gateway.Respond(w, http.StatusNotFound, failure{problem{
		Message: fmt.Sprintf("There is no model %.100q: no live worker has an agent of this name, or the token may not name it.", id),
		Type:    invalidRequest, Param: &param, Code: "model_not_found",
	}})
}

// agentsFor is how long the agents of the live workers are remembered.
const agentsFor = 5 * time.Second

// liveAgents remembers the agents of the live workers, and the names of those that lived before: while a worker
// restarts, its agents' names are still agents. Until a first worker was seen, every question is a gateway.NoWorker.
type liveAgents struct {
	mu      sync.Mutex
	workers []admin.Worker // those that lived at the last look, or the one before
	names   []string
	takes   map[string]bool // which let clients instruct them
	read    time.Time
}

// agentOf returns the agent that a request's model names: one that a live worker runs, if the token may
// name one. Any other model names none, as clients send a model of their own.
func (a *API) agentOf(r *gateway.Request, model string) (string, error) {
	if model == "" || model == modelName || !r.Token.May(gateway.Agent) {
		return "", nil
	}
	names, err := a.live.namesOf(r.Work(), a.admin)
	if err != nil || !slices.Contains(names, model) {
		return "", err
	}
	return model, nil
}

func (l *liveAgents) namesOf(ctx context.Context, operator *admin.Client) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.look(ctx, operator, agentsFor)
	return l.names, err
}

func (l *liveAgents) workersOf(ctx context.Context, operator *admin.Client) ([]admin.Worker, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.look(ctx, operator, 0)
	return l.workers, err
}

// look reads the heartbeats, unless it has within a time. l.mu is held.
func (l *liveAgents) look(ctx context.Context, operator *admin.Client, within time.Duration) error {
	if time.Since(l.read) < within {
		return nil
	}
	workers, err := operator.Workers(ctx)
	workers = slices.DeleteFunc(workers, func(w admin.Worker) bool { return w.Started.IsZero() }) // it has just started
	switch {
	case err != nil:
		return err
	case len(workers) == 0 && l.workers == nil:
		return gateway.Fail(gateway.NoWorker, "Which agents there are is known once a worker has started: repeat the request then.")
	}
	l.read = time.Now()
	if len(workers) == 0 {
		return nil
	}
	l.workers, l.takes = workers, takers(workers)
	for _, worker := range workers {
		for _, name := range worker.Agents {
			if name != agents.Default && !slices.Contains(l.names, name) && len(l.names) < agents.Most {
				l.names = append(l.names, name)
			}
		}
	}
	return nil
}
