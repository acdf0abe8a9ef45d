package main

import (
	"os/user"
	"strings"
	"testing"
	"time"

	"turnstile"
	"turnstile/test/expect"
)

// audit lists who changed something, also as JSON. A session without an entry is no error.
func TestAudit(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	environ := []string{"REDIS_URL=" + url}
	_, err := c.Session("s").As("web/alice").Send(limited(t), turnstile.Message{ID: "m", Text: "hello", Delay: time.Hour})
	expect.OK(t, err)
	if r := call(t, environ, "audit", "s").want(t, exitOK); !strings.HasPrefix(r.out, "Nobody has decided or changed anything in session s") {
		t.Errorf("%q", r.out)
	}
	_, err = c.Session("s").As("web/alice").Cancel(limited(t), "m")
	expect.OK(t, err)
	call(t, environ, "dead", "rerun", "s").want(t, exitOK)
	list := objects(t, call(t, environ, "audit", "s", "--json").want(t, exitOK).out)
	expect.Equal(t, "entries", len(list), 2)
	take(t, list[0], "at")
	expect.Equal(t, "the first", list[0]["by"].(string)+" "+list[0]["did"].(string)+" "+list[0]["what"].(string), "web/alice cancel m")
	me, err := user.Current()
	expect.OK(t, err)
	expect.Equal(t, "the second's author", list[1]["by"].(string), me.Username)
	table := call(t, environ, "audit", "s").want(t, exitOK).out
	for _, part := range []string{"AT ", "web/alice", "cancel", "rerun"} {
		if !strings.Contains(table, part) {
			t.Errorf("%q lacks %s", table, part)
		}
	}
	call(t, environ, "audit", "no key").want(t, exitUsage)
	call(t, environ, "audit").want(t, exitUsage)
}
