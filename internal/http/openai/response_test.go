package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// A reply that the model ended at its limit is not whole: programs must not parse it.
func TestReplyThatIsCut(t *testing.T) {
	t.Parallel()
	r, server := modelled(t, true)
	server.Otherwise(func(modelserver.Request) modelserver.Response {
		return modelserver.Stream(modelserver.Text(`{"a": [1`), modelserver.Finish("length"))
	})
	const chat = `"messages":[{"role":"user","content":"x"}]`
	_, whole := r.post("/v1/chat/completions", `{`+chat+`}`)
	choice := whole["choices"].([]any)[0].(map[string]any)
	expect.Equal(t, "finish_reason", choice["finish_reason"], any("length"))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v1/chat/completions", strings.NewReader(`{"stream":true,`+chat+`}`))
	expect.OK(t, err)
	request.Header.Set("Content-Type", "application/json")
	streamed, err := (&http.Client{Transport: transport(t)}).Do(request)
	expect.OK(t, err)
	data, err := io.ReadAll(streamed.Body)
	expect.OK(t, err)
	expect.OK(t, streamed.Body.Close())
	expect.Equal(t, "a chunk with the reason", strings.Contains(string(data), `"finish_reason":"length"`), true)

	ends := func(got any) string {
		response := got.(map[string]any)
		return fmt.Sprintf("%v %v %v", response["status"], response["incomplete_details"], response["completed_at"])
	}
	const want = "incomplete map[reason:max_output_tokens] <nil>"
	status, got := r.post("/v1/responses", `{"input":"x"}`)
	expect.Equal(t, "status", status, http.StatusOK)
	expect.Equal(t, "whole", ends(got), want)
	events := r.events(`{"stream":true,"input":"x"}`)
	last := events[len(events)-1]
	expect.Equal(t, "event", last["type"], any("response.incomplete"))
	expect.Equal(t, "streamed", ends(last["response"]), want)
	r.addsUp(events)
}

// The reason that the model's server gave reaches those who can mend the request, and nobody else.
func TestReasonOfTheModelsServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokens(t, "root send read control operate", "web send read instruct", "user send read"))
	server := modelserver.New(t)
	server.Otherwise(func(modelserver.Request) modelserver.Response {
		return modelserver.Error(http.StatusBadRequest, "invalid_schema", "the schema has no type")
	})
	r.modelWorker(server, true)
	for _, c := range []struct {
		token, extra string
		told         bool
	}{{"root", "", true}, {"web", `,"temperature":1`, true}, {"web", "", false}, {"user", "", false}} {
		for path, body := range map[string]string{
			"/v1/responses":        `{"conversation":"s","input":"x"` + c.extra + `}`,
			"/v1/chat/completions": `{"messages":[{"role":"user","content":"x"}]` + c.extra + `}`,
		} {
			_, got := r.post(path, body, "Authorization", "Bearer "+c.token)
			text, err := json.Marshal(got["error"])
			expect.OK(t, err)
			expect.Equal(t, fmt.Sprint(c, path, string(text)), strings.Contains(string(text), "the schema has no type"), c.told)
			expect.Equal(t, "code", strings.Contains(string(text), `"turnstile_code":"agent_failed"`), true)
		}
	}
}
