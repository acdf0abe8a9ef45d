package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/hostile"
)

// hostileWorker runs an agent with hostile text for three sessions: a asks a question and has
// waiting messages, b failed, and c is done.
func hostileWorker(t *testing.T, url string, settings ...string) *running {
	t.Helper()
	settings = append(settings, "REDIS_URL="+url, "TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_FORMAT=jsonl", playing(t, "speak-hostilely"),
		"TURNSTILE_LOG_LEVEL=debug", "TURNSTILE_DRAIN_TIMEOUT=0")
	w := start(t, settings)
	c := client(t, url)
	asked := send(t, c, "a", "please ask "+hostile.Text)
	untilEvent(t, c, "a", asked, session.EventQuestionAsked)
	send(t, c, "a", hostile.Text)
	reply(t, c, "b", "please fail "+hostile.Text)
	reply(t, c, "c", hostile.Text)
	return w
}

// hostileRecords writes records to Redis as other producers can: a session with a hostile name, and
// one, z, whose worker has hostile text.
func hostileRecords(t *testing.T, url string) {
	t.Helper()
	rdb := newClient(t, url)
	plain := asynq.NewClientFromRedisClient(rdb)
	info, err := plain.EnqueueContext(t.Context(), asynq.NewTask("any", []byte(hostile.Words)), asynq.Queue(rediskey.Queue(hostile.Text)))
	if err != nil {
		t.Fatal(err)
	}
	inspector := asynq.NewInspectorFromRedisClient(rdb)
	if err := inspector.ArchiveTask(info.Queue, info.ID); err != nil {
		t.Fatal(err)
	}
	if err := deliveries.SetDestination(t.Context(), rdb, "bot", deliveries.DestinationState{Disabled: true, Why: hostile.Text}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{hostile.Text, "z"} {
		k := rediskey.For(key)
		_, err = rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Set(t.Context(), k.Sentinel(), "token", time.Hour)
			p.HSet(t.Context(), k.Run(), "token", "token", "worker", hostile.Text, "phase", hostile.Text, "ids", `["`+hostile.Mark+`\u001b[2J"]`)
			p.HSet(t.Context(), k.Resume(), "pending", "1", "reason", hostile.Words)
			p.ZAdd(t.Context(), k.Undelivered(), redis.Z{Member: "bot 1"})
			p.HSet(t.Context(), k.Deliveries(), "1", `{"type":"`+hostile.Mark+`\u001b[2J","data":{"messages":["`+hostile.Mark+`\u001b[2J"]}}`, "why 1", hostile.Words)
			p.ZAdd(t.Context(), rediskey.Owned, redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: key})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// commands are the paths of all commands.
func commands(c *cobra.Command) (list []string) {
	list = append(list, c.CommandPath())
	for _, sub := range c.Commands() {
		list = append(list, commands(sub)...)
	}
	return list
}

// No foreign text can control a terminal, whichever command prints it, on a terminal or in a pipe.
// With --json the text is unchanged.
func TestNoCommandPrintsWhatSteers(t *testing.T) {
	t.Parallel()
	url, sessions := newRedis(t)
	environ := []string{"REDIS_URL=" + url}
	w := hostileWorker(t, url)
	hostileRecords(t, url)
	sick := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintf(w, `{"status":%q,"error":%q}`, "stuck", hostile.Mark+`\u001b[2J`)
	}))
	defer sick.Close()
	sickAddr := sick.Listener.Addr().String()

	words := hostile.Words
	root := newProgram(nil, nil).Command()
	root.InitDefaultHelpCmd()
	uncalled := commands(root)
	for _, c := range []struct {
		command string
		calls   [][]string // the first prints the text
	}{
		{"worker", [][]string{{words}, {"--agent", words}, {"--" + words}, {"--redis", "redis://" + words}}},
		{"worker help", [][]string{{"help", words}}},
		{"worker dashboard", [][]string{{"dashboard", words}, {"dashboard", "--http-addr", words}}},
		{"worker health", [][]string{{"health", "--http-addr", sickAddr}, {"health", words}}},
		{"worker ps", [][]string{{"ps"}, {"ps", "--workers"}, {"ps", words}}},
		{"worker ls", [][]string{{"ls", words}, {"ls"}, {"ls", "a*"}, {"ls", hostile.Text}}},
		{"worker show", [][]string{{"show", "a"}, {"show", "b"}, {"show", "c"}, {"show", "z"}, {"show", words}, {"show", "b", "--follow"}, {"show", words, "--follow"}}},
		{"worker dead", [][]string{{"dead", "b"}, {"dead"}, {"dead", words}}},
		{"worker dead list", [][]string{{"dead", "list", "b"}, {"dead", "list"}, {"dead", "list", words}}},
		{"worker dead rerun", [][]string{{"dead", "rerun", words}, {"dead", "rerun", "--all"}}},
		{"worker dead drop", [][]string{{"dead", "drop", words}, {"dead", "drop", "b", words}, {"dead", "drop", "--all"}}},
		{"worker outbox", [][]string{{"outbox", "z"}, {"outbox"}, {"outbox", words}}},
		{"worker outbox list", [][]string{{"outbox", "list", "z"}, {"outbox", "list"}, {"outbox", "list", words}}},
		{"worker outbox redrive", [][]string{{"outbox", "redrive", words}, {"outbox", "redrive", "--all"}, {"outbox", "redrive", "b", "--to", words}}},
		{"worker outbox drop", [][]string{{"outbox", "drop", words}, {"outbox", "drop", "--all"}}},
		{"worker outbox pause", [][]string{{"outbox", "pause", words}}},
		{"worker outbox enable", [][]string{{"outbox", "enable", words}}},
		{"worker audit", [][]string{{"audit", words}, {"audit", "a"}, {"audit", "b", "--json"}}},
		{"worker agents", [][]string{{"agents", words}, {"agents"}, {"agents", "--json"}}},
		{"worker agents check", [][]string{{"agents", "check", words}}},
		{"worker tenants", [][]string{{"tenants", words}, {"tenants"}}},
		{"worker tenants check", [][]string{{"tenants", "check", words}}},
		{"worker tenants apply", [][]string{{"tenants", "apply", words}}},
		{"worker tenants remove", [][]string{{"tenants", "remove", words}}},
		{"worker export", [][]string{{"export", "--sender", words}}},
		{"worker forget", [][]string{{"forget", words}, {"forget", "--sender", words}, {"forget", "c"}}},
	} {
		if at := slices.Index(uncalled, c.command); at >= 0 {
			uncalled = slices.Delete(uncalled, at, at+1)
		}
		for i, args := range c.calls {
			r := call(t, environ, args...)
			what := fmt.Sprintf("%q (exit code %d)", args, r.code)
			hostile.Check(t, what, r.out)
			hostile.Check(t, what+" on stderr", r.err)
			if i == 0 && !strings.Contains(r.out+r.err, hostile.Mark) {
				t.Errorf("%s prints no words: %q %q", what, r.out, r.err)
			}
		}
	}
	if len(uncalled) > 0 {
		t.Errorf("%q are not called here", uncalled)
	}
	expect.Soon(t, "b's message, which was rerun, to end", func() bool {
		b, err := sessions.Session("b").Info(t.Context())
		return err == nil && b.Phase == session.PhaseIdle && b.Waiting == 0
	})
	// The dead letter may have been dropped, before its rerun or after it.
	reply(t, client(t, url), "b", "please fail "+hostile.Text)
	for _, args := range [][]string{{"ps"}, {"show", "a"}, {"show", "z"}, {"show", "b"}} {
		r := call(t, environ, append(args, "--json")...).want(t, exitOK)
		hostile.CheckJSON(t, fmt.Sprintf("%q", append(args, "--json")), r.out)
	}
	w.stop(t)
	hostile.CheckSeen(t, "the log", w.err.String())
}

// The same holds for dead letters with --json, and for the log in JSON.
func TestJSONSteersNothing(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	w := hostileWorker(t, url, "TURNSTILE_LOG_FORMAT=json")
	hostileRecords(t, url)
	for _, args := range [][]string{{"dead", "b", "--json"}, {"outbox", "z", "--json"}, {"show", "c", "--json"}} {
		r := call(t, []string{"REDIS_URL=" + url}, args...).want(t, exitOK)
		hostile.CheckJSON(t, fmt.Sprintf("%q", args), r.out)
	}
	w.stop(t)
	hostile.CheckJSON(t, "the log", w.err.String())
}

// A hostile name of the agent's program cannot control the terminal of --dev.
func TestDevPrintsNothingThatSteers(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	name := filepath.Join(t.TempDir(), strings.NewReplacer("\x00", "", "/", "").Replace(hostile.Words))
	if err := os.WriteFile(name, []byte("#!/bin/sh\ncat\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := start(t, []string{"REDIS_URL=" + url, "TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_COMMAND='" + name + "'", "TURNSTILE_HTTP_ADDR=" + freeAddr(t)}, "--dev")
	w.out.Await(t, "a worker")
	w.stop(t)
	hostile.CheckSeen(t, "--dev", w.out.String())
	hostile.Check(t, "--dev on stderr", w.err.String())
}

// A session with an invalid name does not hide the dead letters of others.
func TestAHostileNameHidesNoDeadLetters(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	for _, key := range []string{"a", "b"} {
		deadIn(t, url, c, key)
	}
	hostileRecords(t, url)
	environ := []string{"REDIS_URL=" + url}
	if list := objects(t, call(t, environ, "dead", "--json").want(t, exitOK).out); len(list) != 6 {
		t.Errorf("%d of 6 are listed: %v", len(list), list)
	}
	call(t, environ, "dead", "rerun", "--all").want(t, exitOK)
	call(t, environ, "dead", "drop", "--all").want(t, exitOK)
	if r := call(t, environ, "dead").want(t, exitOK); r.out != "No dead letters.\n" {
		t.Errorf("%q", r.out)
	}
}
