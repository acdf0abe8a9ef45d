package resume_test

import (
	"errors"
	"testing"
	"time"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// How the turns of turnstile/internal/protocol read and write the record.

type queue struct {
	*testing.T
	rdb      redis.UniversalClient
	client   *actors.Client
	consumer *actors.Consumer
}

func newQueue(t *testing.T) *queue {
	t.Helper()
	rdb := redistest.New(t)
	consumer, err := actors.NewConsumer(rdb, protocol.Config{Worker: t.Name(), Retention: time.Hour, SentinelTTL: time.Minute})
	expect.OK(t, err)
	q := &queue{t, rdb, actors.NewClient(rdb), consumer}
	q.say("first")
	q.finish(q.claim())
	return q
}

func (q *queue) say(text string) {
	q.Helper()
	_, err := q.client.Session(chat).Send(q.Context(), turnstile.Message{ID: text, Text: text})
	expect.OK(q, err)
}

// claim claims the chat's next turn; nil if there is none.
func (q *queue) claim() *protocol.Claim {
	q.Helper()
	holds, err := q.consumer.Claim(q.Context(), []string{chat})
	expect.OK(q, err)
	if len(holds) == 0 {
		return nil
	}
	expect.OK(q, holds[0].Promote(q.Context()))
	return holds[0]
}

func (q *queue) finish(h *protocol.Claim) {
	q.Helper()
	_, err := h.Finish(q.Context(), protocol.End{Status: session.StatusDone})
	expect.OK(q, err)
}

// die ends the chat's worker and its sentinel.
func (q *queue) die() {
	q.Helper()
	expect.OK(q, q.rdb.Del(q.Context(), keys.Sentinel()).Err())
}

func (q *queue) transcriptID() string {
	q.Helper()
	s, err := q.client.Session(chat).Info(q.Context())
	expect.OK(q, err)
	return s.TranscriptID
}

func TestB22_PendingKeepsTheIdentity(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	id := q.transcriptID()
	answer(t, true)(resume.Mark(t.Context(), q.rdb, chat, resume.ReasonShutdown))
	q.say("next")
	turn := q.claim().Turn()
	expect.Equal(t, "session id", turn.TranscriptID, id)
	expect.Equal(t, "reset", turn.Reset, "")
	expect.Equal(t, "mark", turn.Resume, resume.ReasonShutdown)
}

func TestB23_ReadingDoesNotClear(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	answer(t, true)(resume.Mark(t.Context(), q.rdb, chat, ""))
	unchanged(t, q.rdb, func() {
		expect.Equal(t, "pending", read(t, q.rdb).Pending, true)
	})
	q.say("next")
	h := q.claim()
	expect.Equal(t, "pending in the turn", read(t, q.rdb).Pending, true)
	q.finish(h)
	expect.Equal(t, "after the turn", read(t, q.rdb), resume.Record{})
}

func TestB24_ASuspendedSessionBeginsAnew(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	id := q.transcriptID()
	answer(t, true)(resume.Suspend(t.Context(), q.rdb, chat))
	q.say("next")
	begunAnew(t, q, id)
}

func TestB25_MarkedAndSuspendedBeginsAnew(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	id := q.transcriptID()
	answer(t, true)(resume.Mark(t.Context(), q.rdb, chat, ""))
	answer(t, true)(resume.Suspend(t.Context(), q.rdb, chat))
	q.say("next")
	begunAnew(t, q, id)
}

// begunAnew claims a turn that must have a new transcript and nothing to resume.
func begunAnew(t *testing.T, q *queue, old string) {
	t.Helper()
	turn := q.claim().Turn()
	if turn.TranscriptID == old || turn.TranscriptID == "" {
		t.Errorf("session id %q, it was %q", turn.TranscriptID, old)
	}
	expect.Equal(t, "reset", turn.Reset, "suspended")
	expect.Equal(t, "mark", turn.Resume, "")
	expect.Equal(t, "suspended", read(t, q.rdb).Suspended, false)
}

func TestB43_StuckLoop(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	id := q.transcriptID()
	q.say("deadly")
	for range 3 {
		expect.Equal(t, "suspended", read(t, q.rdb).Suspended, false)
		if q.claim() == nil {
			t.Fatal("no turn")
		}
		q.die()
	}
	if q.claim() != nil {
		t.Fatal("the worker has no time to report that it lives")
	}
	q.die()
	h := q.claim()
	var dead protocol.GivenUpError
	if h == nil || !errors.As(h.Turn().Ends, &dead) {
		t.Fatal("the message was taken a fourth time")
	}
	_, err := h.Finish(t.Context(), protocol.End{Status: session.StatusFailed, Error: dead.Error(), Release: true})
	expect.OK(t, err)
	got := read(t, q.rdb)
	if !got.Suspended || !got.Pending || got.Interruptions != 3 {
		t.Errorf("after three interruptions: %+v", got)
	}
	answer(t, false)(resume.Mark(t.Context(), q.rdb, chat, ""))
	q.say("next")
	begunAnew(t, q, id)
}

func TestB44_OneCounter(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.say("next")
	q.claim()
	for _, step := range []struct {
		name string
		do   func()
		want int
	}{
		{"a mark", func() { answer(t, true)(resume.Mark(t.Context(), q.rdb, chat, "")) }, 0},
		{"a death", func() { q.die(); q.claim() }, 1},
		{"marks again", func() {
			answer(t, true)(resume.Mark(t.Context(), q.rdb, chat, resume.ReasonRestart))
			answer(t, true)(resume.Mark(t.Context(), q.rdb, chat, resume.ReasonCrash))
		}, 1},
		{"a clear", func() { answer(t, true)(resume.Clear(t.Context(), q.rdb, chat)) }, 1},
		{"another death", func() {
			q.die()
			expect.Equal(t, "attempt", q.claim().Turn().Attempt, 1) // it counts failures
		}, 2},
	} {
		step.do()
		expect.Equal(t, step.name, read(t, q.rdb).Interruptions, step.want)
	}
}

func TestB45_AFinishedTurnClearsTheMarkAndItsCounter(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	q.say("next")
	q.claim()
	q.die()
	h := q.claim()
	if got := read(t, q.rdb); !got.Pending || got.Reason != resume.ReasonCrash || got.Interruptions != 1 {
		t.Errorf("before: %+v", got)
	}
	q.finish(h)
	expect.Equal(t, "after", read(t, q.rdb), resume.Record{})
	exists, err := q.rdb.Exists(t.Context(), keys.Resume()).Result()
	expect.OK(t, err)
	expect.Equal(t, "keys", exists, 0)
}
