package protocol_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A cancelled turn disappears at once: a reader sees all of it or nothing, and the transcript from
// before it (B72, B73, B74).
func TestB72_B73_B74_CancelIsAtomic(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("before")
	b.Drain()
	sid := b.Info().TranscriptID
	for i := range 30 {
		id := fmt.Sprint("m", i)
		_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: id, Text: "x", Attachments: []session.Attachment{{Name: "f", URL: "u"}}})
		expect.OK(t, err)
		h := b.Start()
		expect.OK(t, actors.Checkpoint(b.Ctx, h, []session.Entry{{Role: session.RoleUser, Text: "x", Turn: h.Turn().ID}}))
		_, err = b.Client.Session(actors.Key).Stop(b.Ctx)
		expect.OK(t, err)
		over := make(chan struct{})
		var reader sync.WaitGroup
		seen := map[string]int{}
		reader.Go(func() {
			for last := false; ; {
				seen[wholeOrGone(b, id)]++
				if last {
					return
				}
				select {
				case <-over:
					last = true
				default:
				}
			}
		})
		_, err = h.Finish(b.Ctx, protocol.End{Status: session.StatusStopped, Error: "stopped by user"})
		expect.OK(t, err)
		close(over)
		reader.Wait()
		if seen["gone"] == 0 || len(seen) > 2 {
			t.Errorf("states seen: %v", seen)
		}
		s := b.Info()
		expect.Equal(t, "after cancel", string(s.Phase)+s.Turn+s.Worker+strings.Join(s.Messages, " "), "idle")
		expect.Equal(t, "start time", s.StartedAt.IsZero(), true)
		expect.Equal(t, "the message", b.Outcome(id).Status, session.StatusStopped)
		expect.List(t, "transcript", b.Transcript(sid), "before", "re: before")
	}
	b.Say("after")
	expect.List(t, "runs", b.Drain(), "after")
}

// wholeOrGone reads a session at one moment: the turn of a message is there with all of its keys,
// or with none.
func wholeOrGone(b *actors.Bench, id string) string {
	b.Helper()
	s, err := b.Client.Session(actors.Key).Info(b.Ctx)
	expect.OK(b, err)
	if (s.Turn == "") != (len(s.Messages) == 0) || (s.Turn == "") != s.StartedAt.IsZero() || (s.Turn == "") != (s.Phase == session.PhaseIdle) {
		b.Errorf("half a turn: %+v", s)
	}
	var parts []int64
	var state *redis.StringCmd
	cmds, err := b.Redis.TxPipelined(b.Ctx, func(p redis.Pipeliner) error {
		p.Exists(b.Ctx, b.Keys.Sentinel())
		p.Exists(b.Ctx, b.Keys.Active())
		p.Exists(b.Ctx, b.Keys.Journal())
		p.Exists(b.Ctx, b.Keys.Lease())
		state = p.HGet(b.Ctx, b.Keys.Task(b.Task(id)), "state")
		return nil
	})
	expect.OK(b, err)
	sum := int64(0)
	for _, cmd := range cmds {
		if n, ok := cmd.(*redis.IntCmd); ok {
			parts = append(parts, n.Val())
			sum += n.Val()
		}
	}
	switch {
	case sum == 4 && state.Val() == "active":
		return "whole"
	case sum == 0 && state.Val() == "archived":
		return "gone"
	}
	return fmt.Sprint("half: ", parts, state.Val())
}

// A worker that hears of asynqmon's Cancel ends the turn of the task if nobody owns the session, and nothing else.
// Once is enough, however many hear of it.
func TestCancelWaiting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(b *actors.Bench)
		id      string
		want    bool
	}{
		"parked":             {func(b *actors.Bench) { parked(b, time.Hour) }, "now", true},
		"asks":               {waits, "now", true},
		"in a paused queue":  {func(b *actors.Bench) { parked(b, 0); expect.OK(b, b.Inspector().PauseQueue(actors.Queue)) }, "now", true},
		"its owner died":     {func(b *actors.Bench) { b.Say("now"); b.Renew(b.Start()); b.Die() }, "now", true},
		"runs":               {func(b *actors.Bench) { b.Say("now"); b.Start() }, "now", false},
		"waits for its turn": {func(b *actors.Bench) { parked(b, time.Hour) }, "next", false},
		"unknown":            {func(b *actors.Bench) { parked(b, time.Hour) }, "other", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			c.prepare(b)
			before, fence := b.State(c.id), b.Info().Fence
			lines := func() int {
				all, err := protocol.Audit(b.Ctx, b.Redis, actors.Key)
				expect.OK(t, err)
				return len(all)
			}
			b.Redis.Del(b.Ctx, rediskey.Ready)
			for _, worker := range []*actors.Consumer{b.Worker, actors.NewWorker(t, b.Redis, "other")} {
				expect.OK(t, worker.CancelWaiting(b.Ctx, b.Task(c.id)))
				stop, _ := b.Redis.HGet(b.Ctx, b.Keys.Run(), "stop").Int64()
				expect.Equal(t, "stopped", stop == fence, c.want)
				expect.Equal(t, "lines of the audit", lines() == 1, c.want)
				expect.Equal(t, "ready", b.IsIn(rediskey.Ready, actors.Key), c.want)
				expect.Equal(t, "state", b.State(c.id), before)
			}
			if !c.want {
				return
			}
			// The second worker finds the ended turn, also when it is late, and leaves the next one alone.
			claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key})
			expect.OK(t, err)
			_, err = actors.EndUnrun(b.Ctx, claims[0])
			expect.OK(t, err)
			expect.Equal(t, "its end", b.Outcome("now").Status, session.StatusStopped)
			b.Redis.Del(b.Ctx, rediskey.Timer("cancel:"+b.Task("now")))
			expect.OK(t, b.Worker.CancelWaiting(b.Ctx, b.Task("now")))
			expect.Equal(t, "lines of the audit", lines(), 1)
		})
	}
}
