package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/program"
)

// restartAgent is an agent for jsonl: asked for it, it asks the user, or waits until a file is there.
const restartAgent = `read -r turn
case $turn in
*"go on"*) echo '{"type":"text","text":"went on"}' ;;
*"may I?"*) echo '{"type":"ask","id":"q","name":"pay","key":"pay"}'; read -r decision; echo '{"type":"text","text":"asked"}' ;;
*"wait here"*) until [ -e "$0" ]; do sleep 0.1; done; echo '{"type":"text","text":"waited"}' ;;
*) echo '{"type":"text","text":"answered"}' ;;
esac`

// volatile are lines of a dump that change or expire without an owner: heartbeats, leases, maintenance.
var volatile = regexp.MustCompile(`(?m)^(asynq:(servers|workers|\{turnstile:maintenance\})|turnstile:(waiting|scan)|\S+:sentinel ).*\n`)

// outlives stores something of every kind, kills the worker, lets Redis restart, and finds everything again: in Redis,
// and by what users then see. The name of the restart is part of the sessions' keys..
func (c composeServices) outlives(t *testing.T, name string, restart func()) {
	t.Helper()
	open := func(user, password string) redis.UniversalClient {
		rdb, err := redisconn.Open("redis://" + user + ":" + c.vars[password] + "@" + c.redis)
		expect.OK(t, err)
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	administrator, gateway := open("turnstile-admin", "ADMIN_PASSWORD"), turnstile.NewClient(open("turnstile-gateway", "GATEWAY_PASSWORD"))
	chat := func(of string) *turnstile.Session { return gateway.Session(name + ":" + of) }
	enqueue := func(want string, args ...string) {
		t.Helper()
		out, err := c.command(t, "gateway", "enqueue", nil, args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: %s", args, err, out)
		}
	}
	until := func(of string, reached func(session.Info) bool) {
		t.Helper()
		expect.Soon(t, of, func() bool {
			info, err := chat(of).Info(t.Context())
			return err == nil && reached(info)
		})
	}
	gate := filepath.Join(c.dir, name)
	work := func() *program.Process {
		return program.Start(t, c.command(t, "worker", "worker", map[string]string{
			"TURNSTILE_HTTP_ADDR": "", "TURNSTILE_AGENT": "exec", "TURNSTILE_AGENT_FORMAT": "jsonl", "TURNSTILE_AGENT_COMMAND": "sh -c '" + strings.ReplaceAll(restartAgent, "'", `'\''`) + "' " + gate,
			"TURNSTILE_PARK_AFTER": "1ms", "TURNSTILE_SENTINEL_TTL": "2s", "PATH": os.Getenv("PATH"),
		}, c.Services["worker"].Command...))
	}

	worker := work()
	enqueue("answered", "-s", name+":answered", "--id", "m", "--wait", "hello")
	enqueue("answered", "-s", name+":outcome", "--id", "m", "--reply-to", "nowhere", "--wait", "hello")
	enqueue("", "-s", name+":later", "--id", "m", "--in", "1h", "hello")
	enqueue("", "-s", name+":asks", "--id", "m", "may I?")
	until("asks", func(i session.Info) bool { return i.Question != nil && i.Phase == session.PhaseParked })
	enqueue("", "-s", name+":runs", "--id", "m", "wait here")
	until("runs", func(i session.Info) bool { return i.Phase == session.PhaseRunning })
	enqueue("", "-s", name+":runs", "--id", "next", "go on")
	marked, err := resume.Mark(t.Context(), open("turnstile-worker", "WORKER_PASSWORD"), name+":answered", resume.ReasonShutdown)
	if err != nil || !marked {
		t.Fatalf("no mark: %v", err)
	}
	worker.Kill()

	before := volatile.ReplaceAllString(actors.Dump(t, administrator), "")
	expect.Soon(t, "the append-only file", func() bool {
		info := administrator.Info(t.Context(), "persistence").Val()
		return strings.Contains(info, "aof_buffer_length:0\r\n") && strings.Contains(info, "aof_pending_bio_fsync:0\r\n")
	})
	restart()
	expect.Soon(t, "Redis", func() bool { return administrator.Ping(t.Context()).Err() == nil })
	actors.Same(t, "a restart of Redis by "+name, before, volatile.ReplaceAllString(actors.Dump(t, administrator), ""))

	if t.Failed() {
		return // nobody would be answered
	}
	worker = work()
	expect.OK(t, os.WriteFile(gate, nil, 0o600))
	enqueue("waited", "-s", name+":runs", "--id", "m", "--wait", "wait here")
	enqueue("went on", "-s", name+":runs", "--id", "next", "--wait", "go on")
	enqueue("", "-s", name+":asks", "/approve")
	enqueue("asked", "-s", name+":asks", "--id", "m", "--wait", "may I?")
	enqueue("answered", "-s", name+":answered", "--id", "m", "--wait", "hello")
	until("later", func(i session.Info) bool { return i.Delayed == 1 })
	info, err := chat("answered").Info(t.Context())
	if err != nil || !info.Resume.Pending || info.Resume.Reason != resume.ReasonShutdown {
		t.Errorf("the mark: %+v, %v", info.Resume, err)
	}
	out, err := c.command(t, "gateway", "worker", nil, "outbox").CombinedOutput()
	if err != nil || !strings.Contains(string(out), name+":outcome") {
		t.Errorf("the undelivered outcome: %v: %s", err, out)
	}
	worker.Signal(syscall.SIGTERM)
	expect.Equal(t, "the worker's exit code", worker.ExitCode(), 0)
}
