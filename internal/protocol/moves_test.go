package protocol_test

import (
	"fmt"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// accept accepts a message.
func accept(b *actors.Bench, id string, mode session.Mode) error {
	return acceptWith(b, id, mode, 10_000, 0, "")
}

// acceptWith is accept with another cap of the queue, a delay and an agent.
func acceptWith(b *actors.Bench, id string, mode session.Mode, lineCap int, delay time.Duration, agent string) error {
	nonce, payload := "nonce-"+id, fmt.Appendf(nil, `{"v":1,"text":%q}`, id)
	return protocol.Do(b.Ctx, b.Redis, "accept", protocol.KeysOf(actors.Key, ""), []string{b.Keys.Idem(id)},
		"events_cap", 1000, "short", 0, "large_bytes", 0, "longest", 4<<20,
		"session", actors.Key, "id", b.Task(id), "msg", protocol.EncodeTask(actors.Key, id, payload, nonce), "delay", delay.Milliseconds(),
		"nonce", nonce, "followup", fmt.Sprintf(`{"id":%q,"text":%q}`, id, id), "mode", string(mode), "line_cap", lineCap,
		"to", "", "fallback", "", "context", "", "deliver_by", 0, "lasts", 0, "outbox_cap", 1000, "full", []string{}, "after", "", "agent", agent,
		"hash", "hash-"+id, "idem_ttl", time.Hour.Milliseconds()).Err()
}

// trim archives a batch of the messages over the cap.
func trim(b *actors.Bench, most int) func() error {
	return func() error {
		return protocol.Do(b.Ctx, b.Redis, "trim", protocol.KeysOf(actors.Key, ""), nil, "line_cap", most, "events_cap", 1000, "short", 0, "large_bytes", 0, "longest", 4<<20).Err()
	}
}

func claimMove(b *actors.Bench) func() error {
	return func() error {
		_, err := b.Worker.Claim(b.Ctx, []string{actors.Key})
		return err
	}
}

func finishMove(b *actors.Bench, h *protocol.Claim, status session.Status, release bool) func() error {
	return func() error {
		_, err := h.Finish(b.Ctx, protocol.End{Status: status, Error: "why", Entries: []session.Entry{{Role: session.RoleUser, Text: "t"}}, Release: release})
		return err
	}
}

// stopInPart makes one call of a stop, with a batch of one message.
func stopInPart(b *actors.Bench) error {
	until := b.RedisTime().Add(time.Minute).UnixMilli()
	return protocol.Do(b.Ctx, b.Redis, "stop", protocol.KeysOf(actors.Key, ""), []string{b.Keys.Call("in part")}, "by", "",
		"batch_limits", "1 1", "number", 1, "events_cap", 1000, "short", 0, "large_bytes", 0, "deadline", until, "longest", 4<<20).Err()
}

func cancelMove(b *actors.Bench, id string, running bool) func() error {
	return func() error {
		_, _, err := actors.Cancel(b.Ctx, b.Client.Session(actors.Key), id, running)
		return err
	}
}

func acceptMove(b *actors.Bench, id string, mode session.Mode) func() error {
	return func() error { return accept(b, id, mode) }
}

// retract removes the last turn from the transcript, and reruns a message if msg is set.
func retract(b *actors.Bench, task, msg string) func() error {
	b.Helper()
	s := b.Info()
	entries, err := actors.Transcript(b.Ctx, b.Client.Session(actors.Key), s.TranscriptID)
	expect.OK(b, err)
	turn, n := "none", 0
	var messages []string
	for _, e := range entries {
		if e.Turn != turn {
			turn, n, messages = e.Turn, 0, nil
		}
		if n++; e.Message != "" {
			messages = append(messages, b.Task(e.Message))
		}
	}
	return func() error {
		return protocol.Do(b.Ctx, b.Redis, "undo", protocol.KeysOf(actors.Key, s.TranscriptID), []string{b.Keys.Call("undo-" + turn)}, "by", "", "turn", turn, "id", task, "msg", msg,
			"sid", s.TranscriptID, "entries", n, "length", b.Redis.LLen(b.Ctx, b.Keys.Transcript(s.TranscriptID)).Val(), "written", s.Entries, "unsaid", b.Redis.HGet(b.Ctx, b.Keys.Run(), "unsaid").Val(), "messages", messages).Err()
	}
}
