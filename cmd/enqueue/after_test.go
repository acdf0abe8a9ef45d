package main

import (
	"slices"
	"strings"
	"testing"

	"turnstile/internal/chat/terminal"
)

// --json prints where another process can continue, in mid-turn and after the end. Together they
// print each event once.
func TestFollowContinuesAfterAnEvent(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	goOn := make(chan struct{})
	turns(t, url, hour, streaming(t, goOn))
	first := follow(t, url, "-s", "a", "--id", "m", "--json", "hello").until(`"tool_end"`)
	var seen []string
	var ids []string
	for _, o := range (result{out: first.out.String()}).objects(t)[1:] {
		seen, ids = append(seen, text(o, "type")+" "+text(o, "text")), append(ids, text(o, "event_id"))
	}
	if want := []string{"turn_started ", "text Let me ", "text look.\n", "thought hm", "tool_start ", "tool_end "}; !slices.Equal(seen, want) {
		t.Fatalf("seen %q", seen)
	}
	again := make([]*following, len(ids))
	for i, id := range ids {
		again[i] = follow(t, url, "-s", "a", "--id", "m", "--after", id, "--json")
	}
	plain := follow(t, url, "-s", "a", "--id", "m", "--after", ids[1], "another text, which nobody reads")
	close(goOn)
	seen = append(seen, "text Nothing there.")
	last := ""
	for i, f := range again {
		var rest []string
		for _, o := range (result{out: f.all(exitOK)}).objects(t) {
			if text(o, "status") == "" {
				rest, last = append(rest, text(o, "type")+" "+text(o, "text")), text(o, "event_id")
			}
		}
		if !slices.Equal(rest, seen[i+1:]) {
			t.Errorf("after %s: %q, want %q", seen[i], rest, seen[i+1:])
		}
	}
	first.all(exitOK)
	plain.wants(exitOK, "look.\ntool grep (<0.1s) failed: no match\nNothing there.\n")
	if out := follow(t, url, "-s", "a", "--id", "m", "--after", last, "--json").all(exitOK); strings.Count(out, "\n") != 1 || !strings.Contains(out, `"status":"done"`) {
		t.Errorf("after the end: %s", out)
	}

	// Nothing is sent, even if there is no such message any more.
	r := enqueue(t, bg(t), url, "", "-s", "b", "--id", "m", "--follow", "--after", last, "hello").want(t, exitOther)
	r.oneLine(t, "the outcome of message m is unknown")
	if n, err := rdb.Exists(bg(t), "asynq:{session:b}:pending").Result(); n != 0 || err != nil {
		t.Errorf("%d messages wait, %v", n, err)
	}
}

// An interrupted command prints how to continue.
func TestInterruptedFollowTellsHowToGoOn(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	goOn := make(chan struct{})
	turns(t, url, hour, streaming(t, goOn))
	r := enqueue(t, bg(t), url, "", "-s", "a~b", "--id", "m", "--follow", "--timeout", "300ms", "hello").want(t, exitTimeout)
	_, call, ok := strings.Cut(r.err, "to wait for it again: enqueue -s 'a~b' --id m --follow --after ")
	if !ok || r.out != "Let me look.\n" {
		t.Fatalf("%+v", r)
	}
	// So it does with another --redis, but it does not print a password.
	waits := []string{"-s", "a", "--id", "w", "--in", "30d", "--wait", "--timeout", "50ms", "--redis"}
	enqueue(t, bg(t), nowhere, "", append(waits, url, "x")...).want(t, exitTimeout).
		oneLine(t, ": enqueue --redis "+terminal.Quoted(url)+" -s a --id w --follow --after 0-0\n")
	for _, secret := range []string{"redis://:sesame@h", "redis-sentinel://h?master=m&sentinel_password=sesame"} {
		if call := (options{redis: secret}).call("a"); call != "enqueue --redis URL -s a" {
			t.Error(call)
		}
	}
	close(goOn)
	r = enqueue(t, bg(t), url, "", "-s", "a~b", "--id", "m", "--follow", "--after", strings.TrimSpace(call)).want(t, exitOK)
	if r.out != "Nothing there.\n" {
		t.Errorf("%+v", r)
	}
	// A finished message is shown from the beginning.
	if r = enqueue(t, bg(t), url, "", "-s", "a~b", "--id", "m", "--follow", "--after", "0-0").want(t, exitOK); r.out != "Let me look.\nNothing there.\n" {
		t.Errorf("%+v", r)
	}
}
