package neighbours

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

const (
	sessions = 60
	messages = 10 // of each session
)

// A deploy replaces running workers with those of the next version, and a rollback does the
// reverse. In each, one worker is killed in mid-turn, and one is drained. Senders of both versions
// send all the time.
func TestDeploy(t *testing.T) {
	t.Parallel()
	before, this := versions(t)
	t.Run("forward", func(t *testing.T) {
		t.Parallel()
		deploy(t, before, this)
	})
	t.Run("back", func(t *testing.T) {
		t.Parallel()
		deploy(t, this, before)
	})
}

func deploy(t *testing.T, from, to version) {
	s := newStage(t)
	leaving := []*process{s.worker(from), s.worker(from)}
	var ended atomic.Int64
	senders := []func() said{s.send(from, 0, &ended), s.send(to, sessions/2, &ended)}
	expect.Soon(s, "a tenth of the answers", func() bool { return ended.Load() > sessions*messages/10 })

	coming := []*process{s.worker(to), s.worker(to)}
	var cut []string // the sessions of killed workers
	for _, p := range []*process{coming[0], leaving[0]} {
		expect.Soon(s, "turns of the "+p.name, func() bool { return len(s.heldBy(p)) > 2 })
		p.Kill()
		held := s.heldBy(p)
		if len(held) == 0 {
			t.Errorf("the %s was not killed in mid-turn", p.name)
		}
		cut = append(cut, held...)
	}
	expect.Soon(s, "turns of the other "+leaving[1].name, func() bool { return len(s.heldBy(leaving[1])) > 2 })
	leaving[1].drain()
	given := strings.Count(leaving[1].Output.String(), `"status":"requeued"`)

	for i, finish := range senders {
		r := finish()
		if r.code != 0 || r.err != "" {
			t.Errorf("sender %d: exit code %d: %s", i, r.code, r.err)
		}
		s.answered(r.out, i*sessions/2)
	}
	redelivered := 0
	for i := range sessions {
		redelivered += s.inOrder(sessionKey(i))
	}
	t.Logf("%s to %s: %d sessions lost their worker, %d turns were given back, %d messages redelivered",
		from.name, to.name, len(cut), given, redelivered)
	if redelivered < len(cut)+given {
		t.Errorf("%d messages were redelivered, of %d turns of killed workers and %d that were given back", redelivered, len(cut), given)
	}
}

// Workers of the other version do not touch turns that last longer than the sentinel's TTL, while
// they recover the sessions of dead workers.
func TestLongTurns(t *testing.T) {
	t.Parallel()
	before, this := versions(t)
	s := newStage(t)
	const each = 3
	var workers []*process
	for _, v := range []version{before, this} {
		workers = append(workers, s.worker(v, fmt.Sprintf("TURNSTILE_CONCURRENCY=%d", each), "TURNSTILE_SENTINEL_TTL=1s", "TURNSTILE_SWEEP_INTERVAL=500ms"))
	}
	for i := range 2 * each {
		s.say(sessionKey(i), "long", "sleep=2500ms long")
	}
	for _, p := range workers {
		expect.Soon(s, "turns of the "+p.name, func() bool { return len(s.heldBy(p)) == each })
	}
	for i := range 2 * each {
		key := sessionKey(i)
		if o := s.ends(key, "long"); o.Status != session.StatusDone || time.Duration(o.Duration) < 2500*time.Millisecond {
			t.Errorf("the message of %s: %+v", key, o)
		}
		s.oneSet(key, entries("echo: long", "long"))
		if n := s.redelivered(key, "long"); n != 0 {
			t.Errorf("the message of %s was redelivered %d times", key, n)
		}
	}
}

func sessionKey(i int) string { return fmt.Sprintf("agent:deploy:%02d", i) }
func messageID(i int) string  { return fmt.Sprintf("m%02d", i) }

func reply(key, id string) string { return "echo: " + id + " of " + key }

// send sends the messages of half of the sessions and waits for their ends.
func (s *stage) send(v version, first int, ended *atomic.Int64) (finish func() said) {
	s.Helper()
	var file strings.Builder
	for m := range messages {
		for i := first; i < first+sessions/2; i++ {
			key, id := sessionKey(i), messageID(m)
			does := "sleep=60ms"
			if (i+m)%3 == 0 {
				does = "tool=search:100ms sleep=200ms"
			}
			line, err := json.Marshal(map[string]string{"session": key, "id": id, "text": does + " " + id + " of " + key})
			expect.OK(s, err)
			file.Write(append(line, '\n'))
		}
	}
	return s.launch(v, "enqueue", file.String(), func(line string) {
		if strings.Contains(line, `"reply":`) {
			ended.Add(1)
		}
	}, "--file", "-", "--wait", "--json")
}

// heldBy are the sessions in which a worker runs a turn, as Redis has them.
func (s *stage) heldBy(p *process) (held []string) {
	s.Helper()
	busy, err := actors.Collect(s.client.Sessions(s.ctx, admin.Query{State: admin.StateBusy}))
	expect.OK(s, err)
	for _, info := range busy {
		if info.Worker == p.worker() && info.Phase == "running" {
			held = append(held, info.Session)
		}
	}
	return held
}

// answered checks a sender's output: each message succeeded once.
func (s *stage) answered(out string, first int) {
	s.Helper()
	ends := map[string]int{}
	for line := range strings.Lines(out) {
		var o struct {
			session.Outcome
			Reply *string `json:"reply"`
		}
		expect.OK(s, json.Unmarshal([]byte(line), &o))
		if o.Reply == nil {
			continue // a receipt
		}
		ends[o.Session+" "+o.ID]++
		if o.Status != session.StatusDone || *o.Reply != reply(o.Session, o.ID) {
			s.Errorf("message %s of %s: %s %q %s", o.ID, o.Session, o.Status, *o.Reply, o.Error)
		}
	}
	for i := first; i < first+sessions/2; i++ {
		for m := range messages {
			if n := ends[sessionKey(i)+" "+messageID(m)]; n != 1 {
				s.Errorf("message %s of %s ended %d times for its sender", messageID(m), sessionKey(i), n)
			}
		}
	}
}

// inOrder checks a session in Redis: the messages ended once, in their order, with one set of
// entries each, and nothing is left. It returns how often one of them was redelivered.
func (s *stage) inOrder(key string) (redelivered int) {
	s.Helper()
	var want, set []string
	for m := range messages {
		want = append(want, messageID(m))
		set = append(set, entries(reply(key, messageID(m)), messageID(m))...)
	}
	if got := s.ended(key); !slices.Equal(got, want) {
		s.Errorf("the messages of %s ended as %q", key, got)
	}
	s.oneSet(key, set)
	s.nothingLeft(key)
	for _, id := range want {
		redelivered += s.redelivered(key, id)
	}
	return redelivered
}

// redelivered is how often a message was redelivered without a failure.
func (s *stage) redelivered(key, id string) int {
	n, _ := s.rdb.HGet(s.ctx, rediskey.For(key).Task(rediskey.TaskID(key, id)), "redelivered").Int() // absent: never
	return n
}

// ended are the messages of a session in the order of their ends.
func (s *stage) ended(key string) (ids []string) {
	s.Helper()
	entries, err := s.rdb.XRange(s.ctx, rediskey.For(key).Events(), "-", "+").Result()
	expect.OK(s, err)
	for _, entry := range entries {
		var e session.Event
		text, _ := entry.Values["e"].(string)
		expect.OK(s, json.Unmarshal([]byte(text), &e))
		if e.Type == session.EventTurnEnded {
			ids = append(ids, e.Messages...)
		}
	}
	return ids
}

// entries are a turn's in a transcript: its messages, then its reply.
func entries(reply string, ids ...string) (list []string) {
	for _, id := range ids {
		list = append(list, "user: "+id)
	}
	return append(list, "assistant: "+reply)
}

// oneSet checks a transcript without its tools: it has each message, by its ID, and each reply once.
func (s *stage) oneSet(key string, want []string) {
	s.Helper()
	list, err := actors.Transcript(s.ctx, s.client.Session(key), s.info(key).TranscriptID)
	expect.OK(s, err)
	var got []string
	for _, e := range list {
		switch e.Role {
		case session.RoleUser:
			got = append(got, "user: "+e.Message)
		case session.RoleTool:
		default:
			got = append(got, string(e.Role)+": "+e.Text)
		}
	}
	if !slices.Equal(got, want) {
		s.Errorf("transcript of %s:\n%q, want\n%q", key, got, want)
	}
}

// nothingLeft checks that a session is idle and has no dead letters.
func (s *stage) nothingLeft(key string) {
	s.Helper()
	info := s.info(key)
	active, err := s.rdb.LLen(s.ctx, rediskey.For(key).Active()).Result()
	expect.OK(s, err)
	if info.Phase != session.PhaseIdle || info.LeaseLeft > 0 || info.Waiting+info.Delayed+info.DeadLetters > 0 || active > 0 {
		s.Errorf("left of %s: %+v, %d active", key, info, active)
	}
}
