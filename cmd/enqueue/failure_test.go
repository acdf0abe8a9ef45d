package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/redistest"
	"turnstile/test/watched"
)

func TestRefusedMessagesExitWith3(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	ctx := bg(t)
	enqueue(t, ctx, url, "", "-s", "a", "--id", "m1", "first").want(t, exitOK)
	occupy(t, url, "a", protocol.Config{Line: session.QueueSettings{Cap: 1}})
	enqueue(t, ctx, url, "", "-s", "a", "--mode", "reject", "no").want(t, exitRefused).oneLine(t, "refused", "running a turn")
	enqueue(t, ctx, url, "", "-s", "a", "--agent", "other", "no").want(t, exitRefused).oneLine(t, "refused", "another agent", "/agent NAME")
	enqueue(t, ctx, url, "", "-s", "a", "--id", "m2", "fits").want(t, exitOK)
	r := enqueue(t, ctx, url, "", "-s", "a", "--id", "m3", "--wait", "--json", "no").want(t, exitRefused)
	r.oneLine(t, "refused", "full")
	list := r.objects(t)
	if len(list) != 1 || text(list[0], "status") != "refused" || text(list[0], "reason") != "full" || text(list[0], "id") != "m3" {
		t.Errorf("%+v", r)
	}
	if n, err := rdb.LLen(ctx, "asynq:{session:a}:pending").Result(); n != 1 || err != nil {
		t.Errorf("%d pending, %v", n, err)
	}
}

func TestTimeoutCancelsNothing(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	ctx := bg(t)
	enqueue(t, ctx, url, "", "-s", "a", "--id", "m", "--wait", "--timeout", "50ms", "slow").want(t, exitTimeout).
		oneLine(t, "no reply", "50ms; the message stays", "enqueue -s a --id m --follow --after 0-0\n")
	r := enqueue(t, ctx, url, "", "-s", "a", "--id", "m", "--follow", "--timeout", "50ms", "--json", "slow").want(t, exitTimeout)
	list := r.objects(t)
	if len(list) != 2 || list[1]["code"] != 4.0 || text(list[1], "id") != "m" || text(list[1], "session") != "a" {
		t.Errorf("%+v", r)
	}
	again := []string{"-s", "a", "--id", "m", "--follow", "--after", "0-0"} // as the hint says
	enqueue(t, ctx, url, "", append(again, "--timeout", "50ms")...).want(t, exitTimeout)
	turns(t, url, hour, echo)
	for range 2 { // first it waits, then it finds the ended message
		if r := enqueue(t, ctx, url, "", again...).want(t, exitOK); r.out != "echo: slow\n" || r.err != "" {
			t.Errorf("%+v", r)
		}
	}
}

func TestATurnThatEndsOtherwise(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	turns(t, url, hour, func(h *protocol.Claim) *protocol.End {
		return &protocol.End{Status: session.Status(h.Turn().Message.Text), Reply: "so far", Error: "the reason"}
	})
	for _, status := range []string{"failed", "interrupted", "expired", "stopped"} {
		r := enqueue(t, bg(t), url, "", "-s", "a", "--wait", status).want(t, exitEnded)
		r.oneLine(t, status+": the reason")
		if r.out != "so far\n" {
			t.Errorf("%s: stdout %q", status, r.out)
		}
		r = enqueue(t, bg(t), url, "", "-s", "a", "--wait", "--json", status).want(t, exitEnded)
		if list := r.objects(t); len(list) != 2 || text(list[1], "status") != status || text(list[1], "error") != "the reason" {
			t.Errorf("%s: %+v", status, r)
		}
	}
}

func TestAResultThatIsNotKept(t *testing.T) {
	t.Parallel()
	redistest.Real(t) // for CLIENT LIST
	url, rdb := newRedis(t)
	turns(t, url, hour, echo)
	enqueue(t, bg(t), url, "", "-s", "a", "--id", "m", "--in", "1h", "x").want(t, exitOK)
	finish := make(chan result, 1)
	go func() { finish <- enqueue(t, bg(t), url, "", "-s", "a", "--id", "m", "--wait", "--json", "x") }()
	expect.Soon(t, "the wait to begin", func() bool {
		list, err := rdb.Do(context.Background(), "CLIENT", "LIST").Text()
		return err == nil && hasWaiter(list, url)
	})
	for _, key := range []string{"asynq:{session:a}:t:" + rediskey.TaskID("a", "m"), "asynq:{session:a}:scheduled"} {
		if err := rdb.Del(context.Background(), key).Err(); err != nil {
			t.Fatal(err)
		}
	}
	r := <-finish
	r.err = strings.TrimPrefix(r.err, "enqueue: no worker is running: the message waits until one is started\n") // on a busy machine
	r.want(t, exitOther).oneLine(t, "result expired", "deleted")
}

func TestCtrlCWhileWaiting(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--wait", "--follow"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			url, rdb := newRedis(t)
			ctx, cancel := context.WithCancel(bg(t))
			finish := make(chan result, 1)
			go func() { finish <- enqueue(t, ctx, url, "", "-s", "a", "--id", "m", flag, "x") }()
			expect.Soon(t, "the session in the ready index", func() bool { return rdb.ZScore(context.Background(), "turnstile:ready", "a").Err() == nil })
			cancel()
			r := <-finish
			r.want(t, exitInterrupted)
			// Ctrl-C may come before the receipt.
			if !strings.Contains(r.err, "--id m") {
				t.Errorf("stderr %q", r.err)
			}
			if n := rdb.LLen(context.Background(), "asynq:{session:a}:pending").Val(); n != 1 {
				t.Errorf("%d pending", n)
			}
		})
	}
}

// Without a receipt the state of the message is unknown.
func TestCtrlCBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	if err := server.Client().Do(context.Background(), "CLIENT", "PAUSE", "60000", "WRITE").Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(bg(t))
	finish := make(chan result, 1)
	go func() {
		finish <- enqueue(t, ctx, server.URL(), "", "-s", "a", "--id", "m", "--json", "x")
	}()
	expect.Soon(t, "the blocked SADD", func() bool {
		list, err := server.Client().Do(context.Background(), "CLIENT", "LIST").Text()
		return err == nil && strings.Contains(list, "cmd=sadd")
	})
	started := time.Now()
	cancel()
	r := <-finish
	r.want(t, exitInterrupted).oneLine(t, "may be stored", "--id m", "safe")
	if d := time.Since(started); d > expect.Lease(2*time.Second) {
		t.Errorf("it took %s to end", d)
	}
	if list := r.objects(t); len(list) != 1 || list[0]["code"] != 130.0 || text(list[0], "id") != "m" {
		t.Errorf("%+v", r)
	}
}

func TestCtrlCWhileReadingStdin(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-s", "a", "-"}, {"--file", "-"}} {
		ctx, cancel := context.WithCancel(bg(t))
		stdin := &silent{asked: make(chan struct{}, 10), end: make(chan struct{})}
		url, rdb := newRedis(t)
		code := make(chan int)
		stderr := &strings.Builder{}
		go func() { code <- run(ctx, args, stdin, &strings.Builder{}, stderr, []string{"REDIS_URL=" + url}) }()
		<-stdin.asked
		cancel()
		if c := <-code; c != exitInterrupted || !strings.Contains(stderr.String(), "interrupted") {
			t.Errorf("%v: exit code %d, stderr %q", args, c, stderr)
		}
		close(stdin.end)
		empty(t, rdb)
	}
}

// silent is a stdin that gives nothing until the test ends.
type silent struct{ asked, end chan struct{} }

func (s *silent) Read([]byte) (int, error) {
	s.asked <- struct{}{}
	<-s.end
	return 0, context.Canceled
}

func TestARedisThatAnswersErrors(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	locked := redistest.StartServer(t, "--requirepass", "sesame")
	for name, c := range map[string]struct {
		url  string
		want string
	}{
		"not there":      {nowhere, "refuses the connection"},
		"no socket":      {"redis-socket:///nonexistent/redis.sock", "socket"},
		"no password":    {strings.Replace(locked.URL(), ":sesame@", "", 1), "wants a password"},
		"wrong password": {strings.Replace(locked.URL(), "sesame", "simsalabim", 1), "user or password"},
		"replica":        {redistest.StartServer(t, "--replicaof", "127.0.0.1", "1").URL(), "read-only replica"},
		"full":           {redistest.StartServer(t, "--maxmemory", "1").URL(), "out of memory"},
		"no cluster":     {strings.TrimSuffix(strings.Replace(redistest.URL(t), "redis://", "redis-cluster://", 1), "/0"), "no cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "no cluster" && strings.Count(c.url, "/") > 2 {
				c.url = c.url[:strings.LastIndex(c.url, "/")]
			}
			for _, args := range [][]string{{"-s", "a", "x"}, {"--file", "-"}} {
				r := enqueue(t, bg(t), c.url, `{"session":"a","text":"x"}`, append(args, "--json")...).want(t, exitOther)
				if first, _, _ := strings.Cut(r.err, "\n"); !strings.Contains(first, c.want) || strings.Contains(r.err, "sesame") || strings.Contains(r.err, "simsalabim") {
					t.Errorf("stderr %q", r.err)
				}
				if list := r.objects(t); len(list) != 1 || list[0]["code"] != 1.0 || !strings.HasSuffix(text(list[0], "error"), "; nothing was stored") {
					t.Errorf("stdout %q", r.out)
				}
			}
		})
	}
}

func TestARedisThatHangs(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	server.Pause()
	defer server.Resume()
	started := time.Now()
	enqueue(t, bg(t), server.URL(), "", "-s", "a", "x").want(t, exitOther).oneLine(t, "does not respond in time", "nothing was stored")
	if d := time.Since(started); d > connectTimeout+2*time.Second {
		t.Errorf("it took %s", d)
	}
}

// Without --timeout a wait outlives its Redis.
func TestWaitOutlivesARestartOfRedis(t *testing.T) {
	t.Parallel()
	server := acl.Server(t)
	finish := make(chan result, 1)
	go func() {
		finish <- enqueue(t, bg(t), acl.URL(t, server.URL(), acl.Sender), "", "-s", "a", "--wait", "hello")
	}()
	expect.Soon(t, "the blocked XREAD", func() bool {
		list, err := server.Client().Do(context.Background(), "CLIENT", "LIST").Text()
		return err == nil && strings.Contains(list, "cmd=xread")
	})
	server.Kill()
	server.Start()
	turns(t, acl.URL(t, server.URL(), acl.Worker), hour, echo)
	r := <-finish
	if r.want(t, exitOK); r.out != "echo: hello\n" {
		t.Errorf("%+v", r)
	}
}

// A wait warns once that Redis is away, and does not claim that the message continues.
func TestWaitTellsThatRedisIsAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		messages int
		args     []string
	}{"one": {1, []string{"-s", "a", "--id", "m", "hello"}}, "file": {2, []string{"--file", "-"}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartServer(t)
			stdout, stderr := watched.NewOutput(), &strings.Builder{}
			code := make(chan int)
			go func() {
				code <- run(bg(t), append(c.args, "--json", "--wait", "--timeout", "6s"), strings.NewReader(`{"session":"a","text":"x"}`+"\n"+`{"session":"b","text":"x"}`),
					stdout, stderr, []string{"REDIS_URL=" + server.URL()})
			}()
			accepted := `"status":"accepted"` // each is accepted and awaited
			stdout.Until(t, accepted, func(text string) bool { return strings.Count(text, accepted) == c.messages })
			server.Kill()
			if got := <-code; got != exitTimeout {
				t.Errorf("exit code %d", got)
			}
			if said := stderr.String(); strings.Count(said, "enqueue: Redis is unreachable, waiting for it\n") != 1 || !strings.Contains(said, "Redis is unreachable, so its state is unknown") || strings.Contains(said, "the message stays") {
				t.Errorf("stderr %q", said)
			}
		})
	}
}

// A command has no ID to repeat it with.
func TestCommandsThatFail(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	replica := redistest.StartServer(t, "--replicaof", "127.0.0.1", "1").URL()
	r := enqueue(t, bg(t), replica, "", "-s", "a", "--json", "/title x").want(t, exitOther)
	r.oneLine(t, "read-only replica", "; nothing was changed\n")
	if list := r.objects(t); len(list) != 1 || list[0]["id"] != nil || text(list[0], "session") != "a" {
		t.Errorf("%v", list)
	}
	r = enqueue(t, bg(t), replica, `{"session":"a","text":"/title x"}`, "--file", "-").want(t, exitOther)
	if !strings.HasPrefix(r.err, "enqueue: line 1: ") || !strings.Contains(r.err, "; nothing was changed\n") || strings.Contains(r.err, " id ") {
		t.Errorf("stderr %q", r.err)
	}

	server := redistest.StartServer(t)
	if err := server.Client().Do(bg(t), "CLIENT", "PAUSE", "60000", "WRITE").Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(bg(t))
	finish := make(chan result, 1)
	go func() { finish <- enqueue(t, ctx, server.URL(), "", "-s", "a", "/title x") }()
	expect.Soon(t, "the blocked ZADD", func() bool {
		list, err := server.Client().Do(bg(t), "CLIENT", "LIST").Text()
		return err == nil && strings.Contains(list, "cmd=zadd")
	})
	cancel()
	(<-finish).want(t, exitInterrupted).oneLine(t, "interrupted", "; the command may have been carried out\n")
}

func TestTheWorstExitCodeCounts(t *testing.T) {
	t.Parallel()
	order := []int{exitInterrupted, exitOther, exitRefused, exitUsage, exitEnded, exitTimeout, exitOK}
	for i, a := range order {
		for _, b := range order[i:] {
			if got := worst(map[int]bool{a: true, b: true}); got != a {
				t.Error(fmt.Sprint(a, " and ", b, " make ", got))
			}
		}
	}
}
