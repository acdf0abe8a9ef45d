package protocol_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
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
