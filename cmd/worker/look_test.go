package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// decode reads JSON with the standard decoder.
func decode(t *testing.T, text string) any {
	t.Helper()
	if strings.Count(text, "\n") != 1 {
		t.Errorf("not one line: %q", text)
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

// take removes fields with values that differ between runs, and checks their form.
func take(t *testing.T, o map[string]any, fields ...string) {
	t.Helper()
	for _, f := range fields {
		switch v := o[f].(type) {
		case string:
			if v == "" {
				t.Errorf("%s is empty", f)
			}
			if _, err := time.Parse(time.RFC3339Nano, v); f == "since" && err != nil {
				t.Error(err)
			}
		case float64:
			if v <= 0 {
				t.Errorf("%s is %v", f, v)
			}
		default:
			t.Errorf("%s is %v", f, v)
		}
		delete(o, f)
	}
}

func TestLook(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	environ := []string{"REDIS_URL=" + url}
	if r := call(t, environ, "ps", "--json").want(t, exitOK); r.out != "[]\n" {
		t.Errorf("ps --json of nothing: %q", r.out)
	}
	if r := call(t, environ, "ps").want(t, exitOK); r.out != "Nothing runs, nothing waits.\n" {
		t.Errorf("ps of nothing: %q", r.out)
	}
	if r := call(t, environ, "show", "a", "--json").want(t, exitOther); r.out != "" ||
		r.err != "worker: session a is unknown: it never had a message, or it was forgotten\n" {
		t.Errorf("show of an unknown session: %+v", r)
	}

	w := echoWorker(t, url, "TURNSTILE_CONCURRENCY=1", "TURNSTILE_DRAIN_TIMEOUT=0")
	reply(t, c, "a", "tool=search first\nline \x1b[31m<&>")
	r, err := c.Session("a").Send(limited(t), turnstile.Message{ID: "m2", Text: "sleep=1h second"})
	if err != nil {
		t.Fatal(err)
	}
	untilEvent(t, c, "a", r.ID, session.EventTurnStarted)
	for id, mode := range map[string]session.Mode{"m3": "", "m4": session.ModeQueue} {
		if _, err := c.Session("a").Send(limited(t), turnstile.Message{ID: id, Text: "third", Mode: mode}); err != nil {
			t.Fatal(err)
		}
	}
	send(t, c, "b", "waits for a slot")
	if _, err := c.Session("c").Send(limited(t), turnstile.Message{Text: "later", Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}

	list, _ := decode(t, call(t, environ, "ps", "--json").want(t, exitOK).out).([]any)
	if len(list) != 3 {
		t.Fatalf("ps lists %v", list)
	}
	for i, want := range []map[string]any{
		{"session": "a", "phase": "running", "state": "running", "until": nil, "followups": 2., "pending": 2., "scheduled": 0.},
		{"session": "b", "session_id": "", "phase": "idle", "state": "waiting", "worker": "", "fence": 0., "turn": "", "since": nil, "until": nil, "followups": 0., "pending": 1., "scheduled": 0.},
		{"session": "c", "session_id": "", "phase": "idle", "state": "delayed", "worker": "", "fence": 0., "turn": "", "since": nil, "until": nil, "followups": 0., "pending": 0., "scheduled": 1.},
	} {
		want["paused"], want["suspended"], want["needs"], want["agent"] = false, false, "", ""
		got, _ := list[i].(map[string]any)
		if i == 0 {
			take(t, got, "session_id", "worker", "fence", "turn", "since")
			want["agent"] = "default"
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("ps: got  %v\nwant %v", got, want)
		}
	}
	table := call(t, environ, "ps").want(t, exitOK).out
	for i, line := range strings.Split(strings.TrimSpace(table), "\n") {
		want := []string{"SESSION STATE WORKER FENCE SINCE FOLLOW-UPS PENDING DELAYED", "a running ", "b waits for a slot - 0 - 0 1 0", "c waits for its time - 0 - 0 0 1"}[i]
		if got := strings.Join(strings.Fields(line), " "); !strings.HasPrefix(got, want) {
			t.Errorf("ps: got  %q\nwant %q", got, want)
		}
	}

	shown, _ := decode(t, call(t, environ, "show", "a", "--json").want(t, exitOK).out).(map[string]any)
	take(t, shown, "session_id", "worker", "fence", "turn", "since")
	transcript, _ := shown["transcript"].([]any)
	for _, e := range transcript {
		entry, _ := e.(map[string]any)
		take(t, entry, "turn", "at")
		delete(entry, "message")
	}
	if ms, _ := shown["turn_messages"].([]any); len(ms) == 1 {
		message, _ := ms[0].(map[string]any)
		take(t, message, "at")
	}
	if want := map[string]any{
		"session": "a", "phase": "running", "state": "running", "paused": false, "pending": 2., "until": nil, "waits_for": "", "scheduled": 0., "archived": 0., "messages": []any{"m2"}, "question": nil,
		"turn_messages": []any{map[string]any{"id": "m2", "text": "sleep=1h second"}}, "reply": "", "dead": []any{},
		"followups": shown["followups"],
		"resume":    map[string]any{"pending": false, "reason": "", "interruptions": 0., "suspended": false, "marked_at": nil},
		"title":     "", "title_by": "", "agent": "default", "needs": "", "queue": map[string]any{}, "dropped": 0.,
		"reply_to": "", "outbox": map[string]any{"owed": 0., "stored": 0., "undelivered": 0.},
		"transcript": []any{
			map[string]any{"role": "user", "text": "tool=search first\nline \x1b[31m<&>"},
			map[string]any{"role": "tool", "tool": map[string]any{"name": "search", "call_id": "echo-1", "input": map[string]any{}, "output": "ok"}},
			map[string]any{"role": "assistant", "text": "echo: first\nline \x1b[31m<&>"},
		},
	}; !reflect.DeepEqual(shown, want) {
		t.Errorf("show: got  %v\nwant %v", shown, want)
	}
	followups, _ := shown["followups"].([]any)
	if len(followups) != 2 {
		t.Fatalf("follow-ups %v", followups)
	}
	for _, f := range followups {
		followup, _ := f.(map[string]any)
		if id := followup["id"]; id != "m3" && id != "m4" {
			t.Errorf("follow-up %v", id)
		}
		delete(followup, "id")
		if want := (map[string]any{"text": "third", "mode": "queue", "state": "queued"}); !reflect.DeepEqual(followup, want) {
			t.Errorf("follow-up %v", followup)
		}
	}

	text := call(t, environ, "show", "a").want(t, exitOK).out
	for _, want := range []string{"state       running\n", ", begun ", "messages    2 pending, 0 delayed, 0 dead letters\n", "follow-ups (2)\n", "m3, queue, queued: third\n", "transcript (3)\n", "search {} -> \"ok\"\n", "line \uFFFD[31m<&>\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("show lacks %q:\n%s", want, text)
		}
	}
	w.stop(t)
}

// show prints an agent's question, and how to decide it.
func TestShowQuestion(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	environ := []string{"REDIS_URL=" + url}
	echoWorker(t, url)
	receipt, err := c.Session("a").Send(limited(t), turnstile.Message{ID: "m1", Text: "ask=deploy hello", Meta: map[string]string{"sender": "web/ada", "sender_name": "Ada"}})
	if err != nil {
		t.Fatal(err)
	}
	untilEvent(t, c, "a", receipt.ID, session.EventQuestionAsked)
	if r := call(t, environ, "show", "a").want(t, exitOK); !strings.Contains(r.out, "asks        deploy: /approve 1 or /deny 1, before 20") ||
		!strings.Contains(r.out, ", for web/ada (Ada)\n") || !strings.Contains(r.out, "  m1, web/ada (Ada), 20") {
		t.Errorf("%s", r.out)
	}
	o, ok := decode(t, call(t, environ, "show", "a", "--json").want(t, exitOK).out).(map[string]any)
	question, _ := o["question"].(map[string]any)
	take(t, question, "asked_at")
	if want := map[string]any{"number": 1., "name": "deploy", "senders": []any{"web/ada"}}; !ok || !reflect.DeepEqual(o["question"], want) {
		t.Errorf("%v", o["question"])
	}
	if answer, err := c.Command(t.Context(), "a", "/approve", ""); err != nil || answer != "Approved question 1: deploy." {
		t.Error(answer, err)
	}
	if o, err := c.Session("a").Wait(t.Context(), receipt.ID); err != nil || o.Reply != "echo: hello" {
		t.Error(o, err)
	}
}

func TestShowContinuity(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	environ := []string{"REDIS_URL=" + url}
	if err := c.Session("a").SetTitle(limited(t), "The build"); err != nil {
		t.Fatal(err)
	}
	// The session never had a message, but it has a setting.
	if r := call(t, environ, "show", "a").want(t, exitOK); !strings.Contains(r.out, "title       The build (by the user)\n") {
		t.Errorf("%q", r.out)
	}
	set := session.QueueSettings{Mode: session.ModeCollect, Debounce: session.Millis(time.Minute), Cap: 3, Drop: session.DropSummarize}
	if err := c.Session("a").SetQueue(limited(t), set); err != nil {
		t.Fatal(err)
	}
	w := echoWorker(t, url, "TURNSTILE_DRAIN_TIMEOUT=0")
	put(t, c, "a", "cut", "stream=2 tick=1h hello")
	untilEvent(t, c, "a", "cut", session.EventTurnStarted)
	untilEvent(t, c, "a", "cut", "text")
	for _, m := range []turnstile.Message{
		{ID: "d1", Text: "dropped"}, {ID: "m1", Text: "queued", Mode: session.ModeQueue}, {ID: "m2", Text: "collected"},
		{ID: "i", Text: "sleep=1h instead", Mode: session.ModeInterrupt},
	} {
		if _, err := c.Session("a").Send(limited(t), m); err != nil {
			t.Fatal(err)
		}
	}
	untilEvent(t, c, "a", "i", session.EventTurnStarted)
	if _, err := c.Session("a").Send(limited(t), turnstile.Message{ID: "m3", Text: "steered", Mode: session.ModeSteer}); err != nil {
		t.Fatal(err)
	}
	untilEvent(t, c, "a", "m3", session.EventSteered)
	shown, _ := decode(t, call(t, environ, "show", "a", "--json").want(t, exitOK).out).(map[string]any)
	states := map[string]any{}
	followups, _ := shown["followups"].([]any)
	for _, f := range followups {
		f, _ := f.(map[string]any)
		id, _ := f["id"].(string)
		states[id] = f["state"]
	}
	if want := map[string]any{"m1": "queued", "m2": "collected", "m3": "steered"}; !reflect.DeepEqual(states, want) {
		t.Errorf("follow-ups %v, want %v", states, want)
	}
	w.stop(t) // the turn is interrupted

	shown, _ = decode(t, call(t, environ, "show", "a", "--json").want(t, exitOK).out).(map[string]any)
	for field, want := range map[string]any{
		"title": "The build", "title_by": "user", "phase": "parked", "dropped": 1.,
		"queue": map[string]any{"mode": "collect", "debounce_ms": 60000., "cap": 3., "drop": "summarize"},
	} {
		if !reflect.DeepEqual(shown[field], want) {
			t.Errorf("%s: %v, want %v", field, shown[field], want)
		}
	}
	resume, _ := shown["resume"].(map[string]any)
	marked, err := time.Parse(time.RFC3339, resume["marked_at"].(string))
	if resume["pending"] != true || resume["reason"] != "shutdown_timeout" || resume["interruptions"] != 1. || err != nil || time.Since(marked).Abs() > expect.Patience {
		t.Errorf("resume: %v", resume)
	}
	transcript, _ := shown["transcript"].([]any)
	if len(transcript) != 2 || transcript[1].(map[string]any)["interrupted"] != true {
		t.Errorf("transcript: %v", transcript)
	}
	text := call(t, environ, "show", "a").want(t, exitOK).out
	for _, want := range []string{
		"queue       collect debounce:1m0s cap:3 drop:summarize\n", "dropped     1 message from the full line; the next turn gets a note\n",
		"resume      the next turn resumes (shutdown_timeout at ", "), interrupted 1 time\n", " (interrupted)\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("show lacks %q:\n%s", want, text)
		}
	}
}

// A turn that waits for its decision without a worker is shown with that, and with the time that is left.
func TestParkedTurnIsShown(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	w, err := worker.New(acl.Client(t, acl.Worker), actors.Pays(), worker.Config{
		ParkAfter: time.Millisecond, AskTimeout: 90 * time.Minute, Logger: slog.New(slog.DiscardHandler),
	})
	expect.OK(t, err)
	expect.OK(t, w.Start(context.Background()))
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	untilEvent(t, c, "a", send(t, c, "a", "hello"), session.EventTurnRequeued)

	environ := []string{"REDIS_URL=" + url}
	const state = "waits for a decision, parked, 1h left"
	for _, list := range []string{"ps", "ls"} {
		got := rows(call(t, environ, list).want(t, exitOK).out)["a"]
		if !strings.HasPrefix(got, state+" ") {
			t.Errorf("%s: %q", list, got)
		}
	}
	shown := call(t, environ, "show", "a").want(t, exitOK).out
	for _, want := range []string{"state       " + state + "\n", "worker      -\n", "pay: /approve 1 or /deny 1, before 20", "\nparked turn\n", "the turn waits without a worker"} {
		if !strings.Contains(shown, want) {
			t.Errorf("show lacks %q:\n%s", want, shown)
		}
	}
	info, err := c.Session("a").Info(limited(t))
	expect.OK(t, err)
	expect.Equal(t, "question's time", info.Until.Sub(info.Question.AskedAt), 90*time.Minute)
	for _, list := range []string{"ls", "show"} {
		o := objects(t, call(t, environ, list, "a", "--json").want(t, exitOK).out)[0]
		expect.Equal(t, list+"'s until", o["until"], any(info.Until.UTC().Format(time.RFC3339Nano)))
		expect.Equal(t, list+"'s state", o["state"], any(string(admin.StateAsking)))
	}
	reply, err := c.Session("a").Command(limited(t), "/status")
	expect.OK(t, err)
	for _, want := range []string{"A turn waits for a decision, without a worker, 0 waiting.\n", "pay. /approve 1 or /deny 1 within 1h"} {
		if !strings.Contains(reply, want) {
			t.Errorf("/status lacks %q: %s", want, reply)
		}
	}
}
