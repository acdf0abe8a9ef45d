package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

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
