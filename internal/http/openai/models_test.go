package openai_test

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"testing"

	"github.com/openai/openai-go/v3/option"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A model that is the name of a living worker's agent chooses this agent, for a token that may name one.
// Every other model chooses nothing.
func TestModelNamesAnAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokens(t, "web send read", "root send read agent"))
	says := func(name string) agent.Agent {
		return agent.Func(func(context.Context, *agent.Turn) (agent.Result, error) { return agent.Result{Text: name}, nil })
	}
	w, err := worker.New(acl.Client(t, acl.Worker), says("default"), worker.Config{
		AgentName: "echo", Logger: slog.New(slog.DiscardHandler),
		Agents: []worker.NamedAgent{
			{Name: "coder", Sessions: []string{"s:*"}, Agent: says("coder")},
			{Name: "writer", Sessions: []string{"*"}, Agent: says("writer")},
		},
	})
	expect.OK(t, err)
	expect.OK(t, w.Start(context.Background()))
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })

	web, root := r.at(r.url, option.WithAPIKey("web")), r.at(r.url, option.WithAPIKey("root"))
	for _, c := range []struct {
		token string
		ids   []string
	}{{"root", []string{"echo", "coder", "writer"}}, {"web", []string{"echo"}}} {
		client := r.at(r.url, option.WithAPIKey(c.token))
		page, err := client.Models.List(t.Context())
		expect.OK(t, err)
		var ids []string
		for _, m := range page.Data {
			ids = append(ids, m.ID)
		}
		expect.List(t, "models for "+c.token, ids, c.ids...)
		for _, id := range []string{"echo", "coder", "writer", "gpt-4.1"} {
			one, err := client.Models.Get(t.Context(), id)
			if !slices.Contains(c.ids, id) {
				r.refused(err, http.StatusNotFound, "model_not_found", id)
				continue
			}
			expect.OK(t, err)
			expect.Equal(t, "model", one.RawJSON(), page.Data[slices.Index(c.ids, id)].RawJSON())
		}
	}

	for conversation, c := range map[string]struct {
		model, reply string
		web          bool
	}{
		"s:1": {model: "writer", reply: "writer"},
		"s:2": {model: "gpt-4.1", reply: "coder"},
		"d:1": {model: "gpt-4.1", reply: "writer"},
		"s:3": {model: "writer", reply: "coder", web: true},
	} {
		client := root
		if c.web {
			client = web
		}
		p := say(conversation, "hello")
		p.Model = c.model
		got, err := client.Responses.New(t.Context(), p)
		expect.OK(t, err)
		expect.Equal(t, conversation, got.OutputText(), c.reply)
		expect.Equal(t, "model", got.Model, c.model)
	}
	p := say("s:1", "and again")
	p.Model = "coder"
	_, err = root.Responses.New(t.Context(), p)
	r.refused(err, http.StatusBadRequest, "invalid_request", "another agent than coder")
}

// Before a first worker was seen nobody knows which agents there are, and what they take.
func TestBeforeTheFirstWorker(t *testing.T) {
	t.Parallel()
	r := &rig{T: t, redis: redistest.New(t), fresh: true}
	r.client = turnstile.NewClient(r.redis)
	_, r.url = r.gateway()
	get := func(path string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+path, nil)
		expect.OK(t, err)
		response, err := (&http.Client{Transport: transport(t)}).Do(request)
		expect.OK(t, err)
		expect.OK(t, response.Body.Close())
		return response.StatusCode, response.Header.Get("Retry-After")
	}
	for _, path := range []string{"/v1/models", "/v1/models/echo"} {
		if status, after := get(path); status != http.StatusServiceUnavailable || after == "" {
			t.Errorf("%s: %d, Retry-After %q", path, status, after)
		}
	}
	for body, want := range map[string]int{
		`{"input":"x","background":true}`:                               http.StatusOK,
		`{"input":"x","background":true,"model":"turnstile"}`:           http.StatusOK,
		`{"input":"x","background":true,"model":"coder"}`:               http.StatusServiceUnavailable,
		`{"input":"x","background":true,"instructions":"Be brief."}`:    http.StatusServiceUnavailable,
		`{"input":"x","background":true,"tools":` + tools + `}`:         http.StatusServiceUnavailable,
		`{"input":[{"role":"system","content":"x"}],"background":true}`: http.StatusServiceUnavailable,
	} {
		if status, got := r.post("/v1/responses", body); status != want {
			t.Errorf("%s: %d %v", body, status, got)
		}
	}
	r.worker()
	status, _ := get("/v1/models")
	expect.Equal(t, "with a worker", status, http.StatusOK)
	status, _ = r.post("/v1/responses", `{"input":"x","model":"coder"}`)
	expect.Equal(t, "with a worker", status, http.StatusOK)
}
