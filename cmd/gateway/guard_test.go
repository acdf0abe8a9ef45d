package main

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"turnstile/pkg/admin"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// The built gateway without tokens is closed while a live worker's agent may run programs: an agent of the
// built worker, a model with tools, and the agent of a program with program.Run. With other agents it is
// open.
func TestGuardBesideBuiltWorkers(t *testing.T) {
	t.Parallel()
	tools := filepath.Join(t.TempDir(), "tools.json")
	expect.OK(t, os.WriteFile(tools, []byte(`[{"name": "now", "description": "The time.", "argv": ["date"]}]`), 0o600))
	model := []string{"TURNSTILE_AGENT=model", "TURNSTILE_MODEL_URL=http://127.0.0.1:1/v1", "TURNSTILE_MODEL=m"}
	for name, c := range map[string]struct {
		program string
		environ []string
		status  int
	}{
		"echo":               {"turnstile/cmd/worker", []string{"TURNSTILE_AGENT=echo"}, http.StatusOK},
		"exec":               {"turnstile/cmd/worker", []string{"TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_COMMAND=cat"}, http.StatusForbidden},
		"a model":            {"turnstile/cmd/worker", model, http.StatusOK},
		"a model with tools": {"turnstile/cmd/worker", append([]string{"TURNSTILE_TOOLS_FILE=" + tools}, model...), http.StatusForbidden},
		"program.Run":        {"turnstile/examples/custom-agent", nil, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := "REDIS_URL=" + redistest.URL(t)
			gateway := program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/gateway"), []string{url}, "--addr", "127.0.0.1:0"))
			gateway.Output.Until(t, "its address", listens.MatchString)
			status := func() int {
				response, err := http.Get("http://" + listens.FindStringSubmatch(gateway.Output.String())[1] + "/v1/sessions")
				expect.OK(t, err)
				expect.OK(t, response.Body.Close())
				return response.StatusCode
			}
			expect.Equal(t, "without a worker", status(), http.StatusOK)
			program.Start(t, program.Command(t, program.Build(t, c.program), append(c.environ, url)))
			if c.status != http.StatusOK {
				expect.Soon(t, "the gateway to be closed", func() bool { return status() == c.status })
				return
			}
			workers := admin.NewClient(redistest.New(t))
			expect.Soon(t, "the worker", func() bool {
				list, err := workers.Workers(t.Context())
				return err == nil && len(list) > 0 && !list[0].Started.IsZero()
			})
			expect.Equal(t, "beside it", status(), c.status)
		})
	}
}
