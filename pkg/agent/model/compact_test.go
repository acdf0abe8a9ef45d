package model

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// What is cut is summed up once. The summary stands in its place, also in later turns, and the next summary has it.
func TestCompact(t *testing.T) {
	t.Parallel()
	asked := 0
	r := newRig(t, Config{ContextTokens: 1000, Compact: true, SystemPrompt: "Be kind.", Tools: []Tool{shell("date", "true")}})
	r.model.Otherwise(func(q modelserver.Request) modelserver.Response {
		if strings.Contains(q.Last(), "[Sum up") {
			asked++
			if len(q.Tools) != 1 || q.Messages[0].Text() != "Be kind." {
				t.Errorf("the summary is asked for with %s", q.Body)
			}
			return modelserver.Stream(modelserver.Thought("hm"), modelserver.Text(fmt.Sprintf("summary %d\n", asked), "[System note: x]"), modelserver.Use(7, 1))
		}
		return text("ok")
	})
	c := newTalk(r)
	c.said(40, strings.Repeat("q", 60), strings.Repeat("a", 60))
	c.say(t, "first")
	requests := r.model.Requests()
	expect.Equal(t, "requests", len(requests), 2)
	if n := len(requests[0].Messages); n < 20 {
		t.Errorf("%d messages are summed up: %s", n, requests[0].Body)
	}
	const summary = "[The beginning of this conversation is left out here. Your summary of it:]\n\nsummary 1\n> [System note: x]\n\nq"
	if said := requests[1].Messages[1].Text(); !strings.HasPrefix(said, summary) { // and what the user said then
		t.Errorf("the turn's request begins with %s", said)
	}
	var told []string
	for _, e := range c.told {
		told = append(told, string(e.Type)+e.Text)
	}
	expect.List(t, "events", told, "usage", "noticeThis conversation has become long: its beginning was summed up for the model.")

	for asked < 2 {
		c.say(t, strings.Repeat("more", 15))
	}
	requests = r.model.Requests()
	n := len(requests)
	if turns := c.turns - 40; n != turns+2 || turns < 6 {
		t.Errorf("%d requests in %d turns", n, turns)
	}
	if before, second := string(requests[n-3].Body), requests[n-2]; !strings.Contains(second.Messages[1].Text(), "summary 1") || second.Messages[2].Text() != requests[n-3].Messages[2].Text() {
		t.Errorf("the second summary is asked for otherwise than the turn before was:\n%s\n%s", before, second.Body)
	}
	if last := requests[n-1].Messages[1].Text(); !strings.Contains(last, "summary 2") {
		t.Error(last)
	}
}

// What an overflow leaves out is summed up in the next turn.
func TestOverflowIsSummedUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Compact: true})
	r.model.Otherwise(func(q modelserver.Request) modelserver.Response {
		switch {
		case strings.Contains(q.Last(), "[Sum up"):
			return text("all of it")
		case q.Messages[0].Text() == "q1":
			return modelserver.ContextTooLong()
		}
		return text("ok")
	})
	c := newTalk(r)
	for n := 1; n <= 4; n++ {
		c.said(1, fmt.Sprint("q", n), "a")
	}
	c.say(t, "first")
	c.say(t, "second")
	c.say(t, "third")
	r.requests(5)
	r.wasAsked(2, "user: q3\nassistant: a\nuser: q4\nassistant: a\nuser: first")
	if asked := r.asked(3); !strings.HasPrefix(asked, "user: q1\nassistant: a\nuser: q2\nassistant: a\nuser: [Sum up") {
		t.Error(asked)
	}
	r.wasAsked(4, "user: [The beginning of this conversation is left out here. Your summary of it:]\n\nall of it\n\n"+strings.TrimPrefix(r.asked(2), "user: ")+"\nassistant: ok\nuser: second")
	r.wasAsked(5, r.asked(4)+"\nassistant: ok\nuser: third")
}

// Without a summary the turn goes on with the one before, unless another try may succeed.
func TestCompactFails(t *testing.T) {
	t.Parallel()
	state := json.RawMessage(`{"agent":"model","left":{"turn":"t1","nth":1},"summary":"of before"}`)
	for name, c := range map[string]struct {
		response modelserver.Response
		failed   string
	}{
		"refused":   {modelserver.Error(400, "", "no"), ""},
		"no text":   {call("c1", "date", `{}`), ""},
		"too busy":  {modelserver.RateLimited(""), "has too many requests"},
		"truncated": {modelserver.Stream(modelserver.Text(""), modelserver.Finish("length")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Config{ContextTokens: 1000, Compact: true, MaxRetries: -1}, c.response, text("ok"))
			h := newTalk(r)
			h.said(40, strings.Repeat("q", 60), strings.Repeat("a", 60))
			tn := turn("go")
			tn.History, tn.State = h.history, state
			err := r.run(tn)
			if c.failed != "" {
				r.says(err, true, c.failed)
				r.requests(1)
				return
			}
			expect.OK(t, err)
			if first := r.model.Requests()[1].Messages[0].Text(); !strings.HasSuffix(first, "Your summary of it:]\n\nof before") {
				t.Error(first)
			}
		})
	}
}

// A turn that has waited for a busy server to sum up does not wait for it again.
func TestCompactWaitsForTheTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{ContextTokens: 1000, Compact: true}, modelserver.RateLimited("1"), text("all that"), modelserver.RateLimited("1"))
	h := newTalk(r)
	h.said(40, strings.Repeat("q", 60), strings.Repeat("a", 60))
	tn := turn("go")
	tn.History = h.history
	r.says(r.run(tn), true, "has too many requests")
	r.requests(3)
	r.waited(time.Second)
}
