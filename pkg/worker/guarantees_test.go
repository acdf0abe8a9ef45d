package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/expect"
)

// alternates checks that a session's turns never overlapped: starts and ends alternate.
func (r *rig) alternates(key string) {
	r.Helper()
	running := ""
	for _, e := range r.events(key) {
		switch e.Type {
		case session.EventTurnStarted:
			if running != "" {
				r.Errorf("%s: turn %s began while %s ran", key, e.Turn, running)
			}
			running = e.Turn
		case session.EventTurnEnded, session.EventTurnRequeued, session.EventTurnRetry:
			if running != e.Turn {
				r.Errorf("%s: turn %s ended, but %q ran", key, e.Turn, running)
			}
			running = ""
		}
	}
}

func TestB05_SecondMessageWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.process("one", job{})
	r.process("two", job{})
	first := "sleep=" + expect.Lease(700*time.Millisecond).String() + " hello"
	r.say("m1", first)
	r.awaitEvent("the first turn", func(e session.Event) bool { return e.Type == session.EventTurnStarted })
	owner := r.info().Worker
	told := r.say("m2", "the very same message")
	expect.Equal(t, "status", told.Status, receipt.Queued)
	expect.Equal(t, "position", told.Position, 2)
	list, err := admin.NewClient(acl.Client(t, acl.Operator)).Session(r.key).FollowUps(r.ctx)
	expect.OK(t, err)
	if len(list) != 1 || list[0].ID != "m2" || list[0].Text != "the very same message" {
		t.Errorf("follow-ups: %+v", list)
	}
	expect.List(t, "turns so far", r.starts(r.key), "m1")
	expect.Equal(t, "owner", r.info().Worker, owner)
	r.ends("m1", session.StatusDone)
	r.ends("m2", session.StatusDone)
	expect.List(t, "turns", r.starts(r.key), "m1", "m2")
	r.alternates(r.key)
	expect.List(t, "transcript", r.transcript(r.key), "user "+first, "assistant echo: hello",
		"user the very same message", "assistant echo: the very same message")
}

// With two worker processes and many senders, no session has two turns at once, and each sender's
// messages keep their order.
func TestB05_NoOverlap(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const sessions, senders, each = 8, 3, 6
	r.process("one", job{Concurrency: 4})
	r.process("two", job{Concurrency: 4})
	var all sync.WaitGroup
	for s := range sessions {
		for n := range senders {
			all.Go(func() {
				for i := range each {
					_, err := receipt.Input(r.ctx, r.client.Session(fmt.Sprint(r.key, s)), turnstile.Message{ID: fmt.Sprintf("%d-%d", n, i), Text: "sleep=5ms x"})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	for s := range sessions {
		key := fmt.Sprint(r.key, s)
		next := [senders]int{}
		for n := range senders {
			expect.Equal(t, "status", r.outcomeIn(key, fmt.Sprintf("%d-%d", n, each-1)).Status, session.StatusDone)
		}
		for _, id := range r.starts(key) {
			var n, i int
			_, err := fmt.Sscanf(id, "%d-%d", &n, &i)
			expect.OK(t, err)
			if i != next[n] {
				t.Errorf("%s: sender %d's message %d ran, want %d", key, n, i, next[n])
			}
			next[n] = i + 1
		}
		expect.Equal(t, "turns", len(r.starts(key)), senders*each)
		r.alternates(key)
	}
}

func TestB82_DuplicateDelivery(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s)
	r.worker(s)
	m := turnstile.Message{ID: "m1", Text: "hello"}
	var all sync.WaitGroup
	receipts := make([]receipt.Receipt, 16)
	for i := range receipts {
		all.Go(func() {
			var err error
			if receipts[i], err = receipt.Input(r.ctx, r.client.Session(r.key), m); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	first := 0
	for _, told := range receipts {
		if told.Status != receipt.Duplicate {
			first++
		}
	}
	expect.Equal(t, "accepted", first, 1)
	a := s.next(t, "m1")
	again := r.send(r.key, m)
	expect.Equal(t, "status while it runs", again.Status, receipt.Duplicate)
	expect.Equal(t, "state while it runs", again.State, "running")
	r.say("m2", "behind")
	expect.Equal(t, "state while it waits", r.say("m2", "behind").State, "pending")
	a.reply("ok")
	s.next(t, "m2").reply("two")
	r.ends("m2", session.StatusDone)
	again = r.send(r.key, m)
	expect.Equal(t, "state afterwards", again.State, "completed")
	r.say("m3", "last")
	s.next(t, "m3").reply("three")
	r.ends("m3", session.StatusDone)
	s.empty(t)
	expect.List(t, "turns", r.starts(r.key), "m1", "m2", "m3")
	expect.Equal(t, "reply", r.ends("m1", session.StatusDone).Reply, "ok")
}

// Keys that could be mistaken for another session's transcript, or for each other.
func TestB84_OneTranscriptEach(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var mu sync.Mutex
	ids := map[string]string{}
	r.worker(agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		if other, ok := ids[turn.TranscriptID]; ok && other != turn.Session {
			t.Errorf("%s and %s have the session id %s", turn.Session, other, turn.TranscriptID)
		}
		ids[turn.TranscriptID] = turn.Session
		for _, e := range turn.History {
			if !strings.HasPrefix(e.Turn, rediskey.IDPrefix(turn.Session)) {
				t.Errorf("%s reads what turn %s wrote", turn.Session, e.Turn)
			}
		}
		return agent.Result{Text: "to " + turn.Session}, nil
	}), slots(8))
	keys := []string{"a", "A", "a:", "a:b", "a:transcript", "a:transcript:1", "a=b", "a+b", "a~b", "a.b", "a@b", "0", strings.Repeat("a", 256)}
	for _, key := range keys {
		for i := range 3 {
			r.send(key, turnstile.Message{ID: fmt.Sprint("m", i), Text: "from " + key})
		}
	}
	seen := map[string]bool{}
	for _, key := range keys {
		r.outcomeIn(key, "m2")
		for i, line := range r.transcript(key) {
			want := []string{"user from ", "assistant to "}[i%2] + key
			expect.Equal(t, "entry", line, want)
		}
		expect.Equal(t, "entries", len(r.transcript(key)), 6)
	}
	for _, name := range r.rdb.Keys(r.ctx, "turnstile:{session:*}:transcript:*").Val() {
		seen[name] = true
	}
	expect.Equal(t, "transcripts", len(seen), len(keys))
}

// Every message that was accepted, queued or scheduled has an end that can be read: a reply, or a
// reason in the archive.
func TestB85_NothingAcknowledgedIsDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker(echo.New(), with(func(o *worker.Config) {
		o.MaxAttempts, o.AgentTimeout, o.Queue.Cap = 2, 100*time.Millisecond, 5
	}))
	kinds := []turnstile.Message{
		{Text: "hello"}, {Text: "fail=final x"}, {Text: "fail=retry x"}, {Text: "panic=1 x"}, {Text: "sleep=1h x"},
		{Text: "x", ExpiresIn: time.Nanosecond}, {Text: "now", Mode: session.ModeInterrupt}, {Text: "sleep=10ms x", Mode: session.ModeReject},
	}
	const sessions, each = 6, 16
	var mu sync.Mutex
	taken := map[string][]string{}
	refused := 0
	var all sync.WaitGroup
	for s := range sessions {
		key := fmt.Sprint(r.key, s)
		all.Go(func() {
			for i := range each {
				m := kinds[(i*5+s)%len(kinds)]
				m.ID = fmt.Sprint("m", i)
				told, err := receipt.Input(r.ctx, r.client.Session(key), m)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if told.Status == receipt.Refused {
					refused++
				} else {
					taken[key] = append(taken[key], m.ID)
				}
				mu.Unlock()
				if i == each/2 && s%2 == 0 {
					if _, err := r.client.Session(key).Stop(r.ctx); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	count := map[session.Status]int{}
	for key, ids := range taken {
		for _, id := range ids {
			o := r.outcomeIn(key, id)
			count[o.Status]++
			if o.Status != session.StatusDone && o.Error == "" {
				t.Errorf("%s of %s ended as %s without a reason", id, key, o.Status)
			}
			archived := r.rdb.ZScore(r.ctx, rediskey.For(key).Archived(), rediskey.TaskID(key, id)).Err() == nil
			if want := !slices.Contains([]session.Status{session.StatusDone, session.StatusInterrupted}, o.Status); archived != want {
				t.Errorf("%s of %s ended as %s; in the archive: %v", id, key, o.Status, archived)
			}
		}
		expect.Soon(t, "the session to be free", func() bool { return r.rdb.Exists(r.ctx, rediskey.For(key).Sentinel()).Val() == 0 })
	}
	t.Logf("%d refused, ends %v", refused, count)
	for _, status := range []session.Status{session.StatusDone, session.StatusFailed, session.StatusExpired} {
		if count[status] == 0 {
			t.Errorf("no message ended as %s", status)
		}
	}
}
