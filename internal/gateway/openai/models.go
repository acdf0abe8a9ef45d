package openai

import (
	"net/http"
	"slices"

	"turnstile/internal/gateway"
)

// model is a model that requests may name.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Owner   string `json:"owned_by"`
}

// getModels lists the agents of the live workers.
func (a *API) getModels(w http.ResponseWriter, r *gateway.Request) error {
	workers, err := a.admin.Workers(r.Work())
	if err != nil {
		return err
	}
	models := []model{}
	for _, worker := range workers {
		if worker.Agent == "" || slices.ContainsFunc(models, func(m model) bool { return m.ID == worker.Agent }) {
			continue
		}
		models = append(models, model{worker.Agent, "model", worker.Started.Unix(), "turnstile"})
	}
	return gateway.Respond(w, http.StatusOK, struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", models})
}
