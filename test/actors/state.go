package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile"

	"github.com/hibiken/asynq"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// Task returns the task id of a message.
func (b *Bench) Task(id string) string { return rediskey.TaskID(Key, id) }

// Waiting returns the IDs in the queue, the next one first.
func (b *Bench) Waiting() []string {
	b.Helper()
	ids, err := b.Redis.LRange(b.Ctx, b.Keys.Pending(), 0, -1).Result()
	expect.OK(b, err)
	slices.Reverse(ids)
	for i := range ids {
		ids[i] = strings.TrimPrefix(ids[i], rediskey.IDPrefix(Key))
	}
	return ids
}

// State returns the state of a message's task, "" if there is none.
func (b *Bench) State(id string) string {
	return b.Redis.HGet(b.Ctx, b.Keys.Task(b.Task(id)), "state").Val()
}

// Info returns the operator's view of the session.
func (b *Bench) Info() session.Info {
	b.Helper()
	s, err := b.Client.Session(Key).Info(b.Ctx)
	expect.OK(b, err)
	return s
}

// Outcome returns the outcome of an ended message.
func (b *Bench) Outcome(id string) session.Outcome {
	b.Helper()
	m, err := b.Chat().Message(b.Ctx, id)
	expect.OK(b, err)
	if m.Outcome == nil {
		b.Errorf("message %s has not ended, it is %q", id, b.State(id))
		return session.Outcome{}
	}
	return *m.Outcome
}

// WaitFor waits for a message's end in the background, from now on.
func (b *Bench) WaitFor(id string) <-chan session.Outcome {
	got := make(chan session.Outcome, 1)
	go func() {
		defer close(got)
		o, err := b.Client.Session(Key).Wait(b.Ctx, id)
		if err != nil && !errors.Is(err, context.Canceled) {
			b.Errorf("wait for %s: %v", id, err)
		}
		got <- o
	}()
	return got
}

// Transcript returns the texts of the transcript's entries.
func (b *Bench) Transcript(transcriptID string) (texts []string) {
	b.Helper()
	if transcriptID == "" {
		return nil // the session has no transcript
	}
	page, err := b.Chat().Transcript(b.Ctx, turnstile.TranscriptQuery{ID: transcriptID, Limit: session.NoLimit})
	expect.OK(b, err)
	for _, e := range page.Entries {
		texts = append(texts, e.Text)
	}
	return texts
}

// Inspector returns asynq's Inspector, on the same client.
func (b *Bench) Inspector() *asynq.Inspector { return asynq.NewInspectorFromRedisClient(b.Redis) }

// Dead lists the dead letters of a session.
func (b *Bench) Dead(sessionKey string) (list []string) {
	b.Helper()
	for d, err := range b.Client.Operate(sessionKey).DeadLetters(b.Ctx) {
		expect.OK(b, err)
		if d.Session != sessionKey || d.Age < 0 || d.Age > expect.Patience || time.Since(d.At).Abs() > expect.Patience {
			b.Errorf("%+v", d)
		}
		list = append(list, fmt.Sprintf("%s %s %q %s", d.ID, d.Outcome.Status, d.Outcome.Why(), d.Text))
	}
	slices.Sort(list) // the clock decides which of them are of one second
	return list
}

// NothingLeft checks that nothing runs and nothing waits.
func (b *Bench) NothingLeft(when string) {
	b.Helper()
	if n := b.Redis.Exists(b.Ctx, b.Keys.Sentinel(), b.Keys.Pending(), b.Keys.Active(), b.Keys.Lease(), b.Keys.Followups()).Val(); n != 0 {
		b.Errorf("%s: %d of sentinel, pending, active, lease and follow-ups are left", when, n)
	}
}

// Listed reports whether asynqmon lists a session.
func (b *Bench) Listed(session string) bool {
	b.Helper()
	listed, err := b.Redis.SIsMember(b.Ctx, rediskey.AllQueues, rediskey.Queue(session)).Result()
	expect.OK(b, err)
	return listed
}

// IsIn reports whether an index has a member.
func (b *Bench) IsIn(index, member string) bool {
	return b.Redis.ZScore(b.Ctx, index, member).Err() == nil
}

// Recent fails the test unless a time is of this test.
func Recent(t testing.TB, what string, at time.Time) {
	t.Helper()
	if d := time.Since(at); d < -2*time.Second || d > expect.Patience {
		t.Errorf("%s: %s", what, at)
	}
}
