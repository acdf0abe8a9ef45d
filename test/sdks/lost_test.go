package sdks

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"turnstile/test/expect"
)

// A stream that lost events after the client's last one is an error for the library, which would
// join the rest to the text before the gap.
func TestEventsLost(t *testing.T) {
	p := newPrograms(t)
	p.gateway()
	p.worker()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.addr+"/v1/responses",
		strings.NewReader(`{"input": "stream=3 one two three", "conversation": "s"}`))
	expect.OK(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	expect.OK(t, err)
	var response struct{ ID, Status string }
	expect.OK(t, json.NewDecoder(answer.Body).Decode(&response))
	expect.OK(t, answer.Body.Close())
	expect.Equal(t, "status", response.Status, "completed")
	expect.OK(t, p.redis.Client().XTrimMaxLen(t.Context(), "turnstile:{session:s}:events", 1).Err())
	const name = "openai-retrieve"
	if l := p.results(p.node("lost.mjs", "", response.ID, "3"), []string{name})[name]; !strings.Contains(l.Error, "events_lost") || l.Text != "" {
		t.Errorf("%+v", l)
	}
}
