package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

func TestSessionAndTranscript(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	for i := range 5 {
		r.say("s", fmt.Sprintf("usage=3:4 tool=look %d", i))
	}
	var view struct {
		TranscriptID string `json:"session_id"`
		State        string
	}
	r.call("GET", "/v1/sessions/s", nil).want(200, &view)
	expect.Equal(t, "state", view.State, "idle")
	var texts []string
	path := "/v1/sessions/s/transcript?limit=4"
	for path != "" {
		var page struct {
			TranscriptID string `json:"session_id"`
			Entries      []session.Entry
			Before       int
		}
		r.call("GET", path, nil).want(200, &page)
		var here []string
		for _, e := range page.Entries {
			if e.Role != session.RoleTool {
				here = append(here, e.Text)
			}
		}
		texts, path = append(here, texts...), ""
		if page.Before > 0 {
			path = fmt.Sprintf("/v1/sessions/s/transcript?limit=4&before=%d&session_id=%s", page.Before, page.TranscriptID)
		}
	}
	want := []string{}
	for i := range 5 {
		want = append(want, fmt.Sprintf("usage=3:4 tool=look %d", i), fmt.Sprintf("echo: %d", i))
	}
	expect.List(t, "transcript", texts, want...)

	var rotated struct {
		TranscriptID string `json:"session_id"`
	}
	r.call("POST", "/v1/sessions/s/new", object{"session_id": view.TranscriptID}).want(200, &rotated)
	r.call("POST", "/v1/sessions/s/new", object{"session_id": view.TranscriptID}).want(200, &rotated)
	if rotated.TranscriptID == view.TranscriptID {
		t.Error("the session id is the old one")
	}
	var page struct{ Entries []session.Entry }
	r.call("GET", "/v1/sessions/s/transcript", nil).want(200, &page)
	expect.Equal(t, "entries of the new transcript", len(page.Entries), 0)
	r.call("GET", "/v1/sessions/s/transcript?session_id="+view.TranscriptID, nil).want(200, &page)
	expect.Equal(t, "entries of the old one", len(page.Entries), 15)
	r.call("GET", "/v1/sessions/s/transcript?before=99999", nil).want(200, &page)
	r.call("DELETE", "/v1/sessions/s", nil).want(204)
	r.call("GET", "/v1/sessions/s", nil).problem(404, gateway.UnknownSession)
}

func TestCommands(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const at = "/v1/sessions/s/"
	r.call("POST", at+"undo", nil).problem(409, gateway.NoTurn)
	r.worker()
	r.say("s", "one")
	r.say("s", "two")
	var u struct {
		Turn, Text string
		Entries    int
	}
	r.call("POST", at+"undo", nil).want(200, &u)
	expect.Equal(t, "undone", fmt.Sprint(u.Text, u.Entries), "two2")
	r.call("POST", at+"retry", object{}).want(200, &u)
	expect.Equal(t, "retried", u.Text, "one")
	r.call("POST", at+"title", object{"title": "Nice"}).want(200)
	r.call("POST", at+"title", object{"title": "a\nb"}).problem(400, gateway.InvalidRequest)
	r.call("POST", at+"queue", object{"mode": "collect", "debounce_ms": 500, "cap": 3, "drop": "old"}).want(200)
	for _, bad := range []object{{"mode": "x"}, {"cap": -1}, {"cap": 1e6}, {"drop": "x"}, {"debounce_ms": -5}, {"debounce_ms": 4e6}} {
		r.call("POST", at+"queue", bad).problem(400, gateway.InvalidRequest)
	}
	var view struct {
		Title string
		Queue session.QueueSettings
	}
	r.call("GET", "/v1/sessions/s", nil).want(200, &view)
	expect.Equal(t, "settings", view.Title+" "+view.Queue.String(), "Nice collect debounce:500ms cap:3 drop:old")
	r.call("POST", at+"queue", object{}).want(200)
	r.call("GET", "/v1/sessions/s", nil).want(200, &view)

	// Stop, and both ways to requeue what it stopped.
	r.call("POST", at+"messages", object{"text": "sleep=1h", "mode": "queue"}, header("Idempotency-Key", "long")).want(202)
	s := r.stream("s", "")
	for e := s.next(); e.Type != session.EventTurnStarted || e.Messages[0] != "long"; e = s.next() {
	}
	r.call("POST", at+"messages", object{"text": "next", "mode": "queue"}).want(202)
	var stopped struct {
		Phase   string
		Dropped int
	}
	r.call("POST", at+"stop", nil).want(200, &stopped)
	expect.Equal(t, "stopped", fmt.Sprint(stopped.Phase, stopped.Dropped), "running1")
	var dead struct {
		Dead []struct{ Session, ID, Status, Text string }
		More bool
	}
	expect.Soon(t, "both dead letters", func() bool {
		r.call("GET", "/v1/dead", nil).want(200, &dead)
		return len(dead.Dead) == 2
	})
	expect.Equal(t, "status", dead.Dead[0].Session+dead.Dead[0].Status, "sstopped")
	r.call("GET", "/v1/dead?limit=1&session=s", nil).want(200, &dead)
	expect.Equal(t, "a page", fmt.Sprint(len(dead.Dead), dead.More), "1 true")
	var again struct{ Rerun int }
	r.call("POST", "/v1/dead/rerun", object{"session": "s"}).want(200, &again)
	expect.Equal(t, "rerun", again.Rerun, 2)
	r.call("POST", at+"resume", nil).want(200, &again)
	expect.Equal(t, "resume", again.Rerun, 0)
	r.call("POST", at+"stop", nil).want(200)
}

// One dead letter is rerun. Nothing else changes, and an empty list does not mean all.
func TestRerunOfSome(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, id := range []string{"one", "two"} {
		r.call("POST", "/v1/sessions/s/messages", object{"text": "hi"}, header("Idempotency-Key", id)).want(202)
	}
	r.call("POST", "/v1/sessions/s/stop", nil).want(200)
	states := func() string {
		t.Helper()
		var one, two gateway.Message
		r.call("GET", "/v1/sessions/s/messages/one", nil).want(200, &one)
		r.call("GET", "/v1/sessions/s/messages/two", nil).want(200, &two)
		return string(one.State + " " + two.State)
	}
	expect.Equal(t, "stopped", states(), "archived archived")
	rerun := func(ids ...string) int {
		t.Helper()
		var again struct{ Rerun int }
		r.call("POST", "/v1/dead/rerun", object{"session": "s", "messages": ids}).want(200, &again)
		return again.Rerun
	}
	expect.Equal(t, "of an empty list", rerun(make([]string, 0)...), 0)
	expect.Equal(t, "of an unknown one", rerun("three"), 0)
	expect.Equal(t, "states", states(), "archived archived")
	expect.Equal(t, "of one", rerun("two", "three"), 1)
	expect.Equal(t, "states", states(), "archived pending")
	expect.Equal(t, "again", rerun("two"), 0)
	r.call("POST", "/v1/dead/rerun", object{"session": "s", "messages": []string{"a/b"}}).problem(400, gateway.InvalidRequest)
	r.call("POST", "/v1/dead/rerun", `{"session": "s", "messages": "two"}`).problem(400, gateway.InvalidJSON)
}

// A question may be decided by the senders of the running turn's messages, and by tokens that may
// control.
func TestDecisions(t *testing.T) {
	t.Parallel()
	tokens := withTokens(t, `[
		{"name": "bot", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read"]},
		{"name": "other", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read"]},
		{"name": "boss", "sha256": "SUM", "sessions": ["*"], "may": ["control"]}]`)
	r := newRig(t, tokens).as("bot")
	r.worker()
	const at = "/v1/sessions/s/"
	r.call("POST", at+"approve", object{"question": "none.1", "as": "alice"}).problem(409, gateway.NoQuestion)
	s := r.stream("s", "")
	ask := func() (question string) {
		t.Helper()
		r.call("POST", at+"messages", object{"text": "ask=rm done", "as": "alice"}).want(202)
		e := s.until(session.EventQuestionAsked)
		return e.Turn + "." + e.CallID
	}
	first := ask()
	mine := object{"question": first, "as": "alice"}
	r.call("POST", at+"approve", object{"question": first}).problem(403, gateway.Forbidden) // bot is not bot/alice
	r.call("POST", at+"approve", object{"question": first, "as": "bob"}).problem(403, gateway.Forbidden)
	r.as("other").call("POST", at+"approve", mine).problem(403, gateway.Forbidden)
	for _, bad := range []string{"", "1", ".1", "x.", "x.y", "x.0", "x.-1"} {
		r.call("POST", at+"deny", object{"question": bad, "as": "alice"}).problem(400, gateway.InvalidRequest)
	}
	r.call("POST", at+"deny", object{"question": first, "always": true, "as": "alice"}).problem(400, gateway.InvalidRequest)
	r.call("POST", at+"deny", object{"question": "gone.1", "as": "alice"}).problem(409, gateway.OtherQuestion)
	r.call("POST", at+"deny", object{"question": first[:len(first)-1] + "77", "as": "alice"}).problem(409, gateway.OtherQuestion)
	var got struct{ Question, Name, Decision string }
	r.call("POST", at+"approve", mine).want(200, &got)
	expect.Equal(t, "decided", fmt.Sprint(got.Question == first, got.Name, got.Decision), "truermallow")
	s.until(session.EventTurnEnded)
	second := ask()
	r.as("boss").call("POST", at+"deny", object{"question": first}).problem(409, gateway.OtherQuestion) // a late click
	r.as("boss").call("POST", at+"deny", object{"question": second}).want(200, &got)
	expect.Equal(t, "denied", got.Decision, "deny")
	expect.Equal(t, "answered", s.until(session.EventQuestionAnswered).Decision, session.Deny)
	s.until(session.EventTurnEnded)

	anyone := rigOn(t, r.redis, tokens, func(c *gateway.Config) { c.AnyoneDecides = true })
	anyone.as("other").call("POST", at+"approve", object{"question": ask(), "always": true}).want(200, &got)
	expect.Equal(t, "decided by another", got.Decision, "always")
}

// If a request names a user, the user decides, and the token's permissions do not count.
func TestDecisionOfANamedUser(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, `[{"name": "bot", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read", "control"]}]`)).as("bot")
	r.worker()
	const at = "/v1/sessions/s/"
	s := r.stream("s", "")
	ask := func() object {
		t.Helper()
		r.call("POST", at+"messages", object{"text": "ask=rm done", "as": "alice"}).want(202)
		e := s.until(session.EventQuestionAsked)
		return object{"question": e.Turn + "." + e.CallID}
	}
	by := func() string {
		t.Helper()
		defer s.until(session.EventTurnEnded)
		return s.until(session.EventQuestionAnswered).By
	}
	question := ask()
	r.call("POST", at+"approve", object{"question": question["question"], "as": "mallory"}).problem(403, gateway.Forbidden)
	r.call("POST", at+"deny", object{"question": question["question"], "as": "bob"}).problem(403, gateway.Forbidden)
	command := func(as string, question object) answer {
		_, number, _ := strings.Cut(question["question"].(string), ".")
		return r.call("POST", at+"messages", object{"text": "/approve " + number, "commands": true, "as": as})
	}
	command("mallory", question).problem(403, gateway.Forbidden)
	r.call("POST", at+"approve", object{"question": question["question"], "as": "alice"}).want(200)
	expect.Equal(t, "decided by", by(), "bot/alice")
	command("alice", ask()).want(200)
	expect.Equal(t, "decided by", by(), "bot/alice")
	r.call("POST", at+"approve", ask()).want(200)
	expect.Equal(t, "decided by", by(), "bot")

	// A key stands for the decision also when the question is no longer there.
	_, number, _ := strings.Cut(ask()["question"].(string), ".")
	approve := func(key string) answer {
		return r.call("POST", at+"messages", object{"text": "/approve " + number, "commands": true, "as": "alice"}, header("Idempotency-Key", key))
	}
	decided := approve("a").want(200)
	by()
	expect.Equal(t, "the decision again", approve("a").want(200).text, decided.text)
	approve("late").problem(409, gateway.NoQuestion)
}
