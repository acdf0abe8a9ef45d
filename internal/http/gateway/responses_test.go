package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"turnstile/internal/http/gateway"
	"turnstile/test/expect"
)

// A session's view has the beginnings of texts, however many wait, and a message has the whole text.
func TestViewsHaveBeginningsOfTexts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	long := strings.Repeat("x", 1<<20)
	r.call("POST", "/v1/sessions/s/messages", object{"text": "sleep=1h " + long}).want(202)
	expect.Soon(t, "its turn", func() bool {
		var v struct{ Phase string }
		r.call("GET", "/v1/sessions/s", nil).want(200, &v)
		return v.Phase == "running"
	})
	for i := range 8 {
		r.call("POST", "/v1/sessions/s/messages", object{"text": long}, header("Idempotency-Key", fmt.Sprint("m", i))).want(202)
	}
	r.call("POST", "/v1/sessions/s/messages", object{"text": "short"}).want(202)
	type text struct {
		ID, Text string
		Cut      bool `json:"text_cut"`
	}
	var view struct {
		Followups    []text
		TurnMessages []text `json:"turn_messages"`
	}
	got := r.call("GET", "/v1/sessions/s", nil).want(200, &view)
	if len(got.text) > 64<<10 {
		t.Errorf("the view has %d bytes", len(got.text))
	}
	expect.Equal(t, "messages", fmt.Sprint(len(view.Followups), len(view.TurnMessages)), "9 1")
	for _, m := range slices.Concat(view.Followups[:8], view.TurnMessages) {
		expect.Equal(t, m.ID, fmt.Sprint(len(m.Text), m.Cut), "4096 true")
	}
	expect.Equal(t, "a short one", view.Followups[8].Text+fmt.Sprint(view.Followups[8].Cut), "shortfalse")
	var whole struct{ Text *string }
	r.call("GET", "/v1/sessions/s/messages/m0?text=true", nil).want(200, &whole)
	expect.Equal(t, "the whole", *whole.Text == long, true)
	whole.Text = nil
	r.call("GET", "/v1/sessions/s/messages/m0", nil).want(200, &whole)
	expect.Equal(t, "without asking", whole.Text == nil, true)
	r.call("GET", "/v1/sessions/s/messages/m0?text=all", nil).problem(400, gateway.InvalidRequest)

	r.call("POST", "/v1/sessions/s/stop", nil).want(200)
	var list struct {
		Dead []text
		More bool
	}
	expect.Soon(t, "dead letters", func() bool {
		got = r.call("GET", "/v1/dead?session=s", nil).want(200, &list)
		return len(list.Dead) >= 9
	})
	if len(got.text) > 64<<10 {
		t.Errorf("the dead letters have %d bytes", len(got.text))
	}
	for _, m := range list.Dead {
		expect.Equal(t, "a dead letter", m.Cut, m.Text != "short")
	}
}

// Large responses that wait for their clients have a budget, and few requests read much at a time. Small responses need
// neither.
func TestLargeResponsesHaveABudget(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	r.say("s", strings.Repeat("x", 20<<10))
	a, b := gateway.Token{Name: "a"}, gateway.Token{Name: "b"}
	fill := func(take func(gateway.Token) (func(), error)) (free []func()) {
		for _, token := range []gateway.Token{a, b} {
			for {
				one, err := take(token)
				if err != nil {
					break
				}
				free = append(free, one)
			}
		}
		return free
	}
	taken := fill(func(token gateway.Token) (func(), error) { return r.gateway.Sending(token, 1<<20) })
	expect.Equal(t, "MiB of all responses", len(taken), 32)
	for _, path := range []string{"/v1/sessions/s/transcript", "/v1/sessions/s/transcript?limit=2"} {
		p := r.call("GET", path, nil).problem(503, gateway.Overloaded)
		contains(t, "the problem", p.Detail, "large responses")
	}
	r.call("GET", "/v1/sessions/s", nil).want(200)
	for _, free := range taken {
		free()
	}
	r.call("GET", "/v1/sessions/s/transcript", nil).want(200)

	ended := expect.Ended()
	taken = fill(func(token gateway.Token) (func(), error) { return r.gateway.Reading(ended, token) })
	expect.Equal(t, "requests that read much", len(taken), 4)
	r.call("GET", "/v1/sessions", nil).want(200)
	got := make(chan answer)
	go func() { got <- r.call("GET", "/v1/sessions/s/transcript", nil) }()
	taken[0]()
	taken[0]() // a second call frees nothing
	expect.Received(t, "response", got).want(200)
	_, err := r.gateway.Reading(ended, b)
	expect.OK(t, err)
	_, err = r.gateway.Reading(ended, b)
	expect.Equal(t, "one more", gateway.ProblemOf(err).Code, gateway.Overloaded)
}
