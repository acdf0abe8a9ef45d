package main

import (
	"strings"
	"testing"
	"time"

	"turnstile/internal/protocol/rediskey"
	"turnstile/test/watched"
)

// A wait prints once that no worker is running, and gets the result of a worker that starts later.
func TestWaitTellsThatNoWorkerRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ args, says string }{
		"one":    {"-s a --wait hello", "the message waits"},
		"follow": {"-s a --json --follow hello", "the message waits"},
		"file":   {"--file - --wait", "messages wait"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := newRedis(t)
			stdout, stderr := watched.NewOutput(), watched.NewOutput()
			code, began := make(chan int), time.Now()
			go func() {
				code <- run(bg(t), strings.Fields(c.args), strings.NewReader(`{"session":"b","text":"hello"}`), stdout, stderr, []string{"REDIS_URL=" + url})
			}()
			hint := "enqueue: no worker is running: " + c.says + " until one is started\n"
			stderr.Await(t, hint)
			if took := time.Since(began); took < 3*time.Second {
				t.Errorf("it is said after %s", took)
			}
			turns(t, url, hour, echo)
			if got := <-code; got != exitOK || stderr.String() != hint || !strings.Contains(stdout.String(), "echo: hello") {
				t.Errorf("exit code %d, stdout %q, stderr %q", got, stdout, stderr)
			}
		})
	}
}

// A worker without maintenance, as turns makes it, sends no heartbeat and still counts as running.
// So does a draining worker, which shows only by its turn.
func TestWaitDoesNotMissAWorker(t *testing.T) {
	t.Parallel()
	t.Run("without maintenance", func(t *testing.T) {
		t.Parallel()
		url, rdb := newRedis(t)
		if err := rdb.Set(bg(t), rediskey.For("a").Paused(), 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
		turns(t, url, hour, echo)
		r := enqueue(t, bg(t), url, "", "-s", "a", "--wait", "--timeout", "5s", "hello").want(t, exitTimeout)
		r.oneLine(t, "no reply to message")
	})
	t.Run("that drains", func(t *testing.T) {
		t.Parallel()
		url, _ := newRedis(t)
		enqueue(t, bg(t), url, "", "-s", "a", "--id", "m", "first")
		finish := occupy(t, url, "a", hour)
		finished := make(chan struct{})
		defer func() { <-finished }()
		time.AfterFunc(4*time.Second, func() { defer close(finished); finish() })
		if r := enqueue(t, bg(t), url, "", "-s", "a", "--id", "m", "--wait", "first").want(t, exitOK); r.err != "" || r.out != "echo: first\n" {
			t.Errorf("%+v", r)
		}
	})
}
