package worker_test

import (
	"slices"
	"strconv"
	"sync"
	"testing"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// Several writers write the session's record at once: it is one writer's version, and complete.
func TestB65_ConcurrentSaves(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s)
	r.say("m1", "hello")
	s.next(t, "m1").reply("one")
	r.ends("m1", session.StatusDone)
	before := r.rdb.HGetAll(r.ctx, r.k.Record()).Val()
	r.say("m2", "again")
	a := s.next(t, "m2")

	const writers = 8
	ids := make([]string, writers)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			var err error
			if ids[i], err = r.client.Session(r.key).NewTranscript(r.ctx); err != nil {
				t.Error(err)
			}
		})
	}
	all.Go(func() { a.reply("two") })
	all.Wait()
	r.ends("m2", session.StatusDone)
	after := r.rdb.HGetAll(r.ctx, r.k.Record()).Val()
	if !slices.Contains(ids, after["session_id"]) {
		t.Errorf("the session id is %s, which no writer wrote: %q", after["session_id"], ids)
	}
	for _, field := range []string{"v", "created_at"} {
		expect.Equal(t, field, after[field], before[field])
	}
	for field := range before {
		if after[field] == "" {
			t.Errorf("the record lost its %s", field)
		}
	}
	was, err := strconv.ParseInt(before["updated_at"], 10, 64)
	expect.OK(t, err)
	is, err := strconv.ParseInt(after["updated_at"], 10, 64)
	expect.OK(t, err)
	if is < was {
		t.Errorf("updated_at went from %d to %d", was, is)
	}
	r.say("m3", "third")
	b := s.next(t, "m3")
	expect.Equal(t, "the next turn's session id", b.TranscriptID, after["session_id"])
	expect.Equal(t, "its history", len(b.History), 0)
	b.reply("three")
	r.ends("m3", session.StatusDone)
}

func TestB77_RotationKeepsTheLock(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	r.say("m2", "behind")
	token := r.token()
	fresh, err := r.client.Session(r.key).NewTranscript(r.ctx, turnstile.TranscriptConfig{Replaces: a.TranscriptID})
	expect.OK(t, err)
	if fresh == a.TranscriptID {
		t.Error("the session id was not rotated")
	}
	expect.Equal(t, "sentinel", r.token(), token)
	expect.Equal(t, "phase", r.info().Phase, "running")
	expect.Equal(t, "a third message", r.say("m3", "third").Status, receipt.Queued)
	a.reply("one")
	expect.Equal(t, "session id of the running turn", r.ends("m1", session.StatusDone).TranscriptID, a.TranscriptID)
	b := s.next(t, "m2")
	expect.Equal(t, "session id of the next turn", b.TranscriptID, fresh)
	expect.Equal(t, "sentinel", r.token(), token)
	expect.Equal(t, "its history", len(b.History), 0)
	b.reply("two")
	s.next(t, "m3").reply("three")
	r.ends("m3", session.StatusDone)
	old, err := actors.Transcript(r.ctx, r.client.Session(r.key), a.TranscriptID)
	expect.OK(t, err)
	expect.Equal(t, "entries of the old transcript", len(old), 2)
	expect.List(t, "the new transcript", r.transcript(r.key), "user behind", "assistant two", "user third", "assistant three")
}

func TestB78_RotationOfAnIDThatIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	r.worker(s)
	r.say("m1", "hello")
	a := s.next(t, "m1")
	token := r.token()
	first, err := r.client.Session(r.key).NewTranscript(r.ctx, turnstile.TranscriptConfig{Replaces: a.TranscriptID})
	expect.OK(t, err)
	expect.OK(t, r.rdb.Del(r.ctx, r.k.Transcript(a.TranscriptID)).Err())
	again, err := r.client.Session(r.key).NewTranscript(r.ctx, turnstile.TranscriptConfig{Replaces: a.TranscriptID})
	expect.OK(t, err)
	expect.Equal(t, "session id", again, first)
	expect.Equal(t, "sentinel", r.token(), token)
	a.reply("one")
	r.ends("m1", session.StatusDone)
	r.free("after the turn")
}
