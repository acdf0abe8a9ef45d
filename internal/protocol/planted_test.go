package protocol_test

import (
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/lease"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// The end of a round of several calls remembers the queue that is due soonest, even if the first
// call saw it.
func TestTakeRemembersTheSoonestLine(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	known := hooks(150)
	now := time.Now().UnixMilli()
	for i, l := range known {
		store(b, l.Destination, now+int64(i), 1, 10)
		known[i].Paused = i > 0 // these are looked at again after a minute
	}
	first, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, known, 20*time.Second)
	expect.OK(t, err)
	expect.Equal(t, "taken", len(first.Deliveries), 1)
	expect.Equal(t, "there is more", first.More(), true)
	last, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, known, 20*time.Second)
	expect.OK(t, err)
	expect.Equal(t, "there is more", last.More(), false)
	if wait := last.At - last.Now; wait > 20_000 || wait < 1 {
		t.Errorf("look again after %d ms: the lease of the first line ends in 20 s", wait)
	}
}

// Steers that the agent has not taken return to the queue, unless the turn ends by a stop.
func TestUntakenSteersReturnHoweverTheTurnEnds(t *testing.T) {
	t.Parallel()
	for _, status := range []session.Status{session.StatusDone, session.StatusFailed, session.StatusInterrupted, session.StatusExpired} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("now")
			h := b.Start()
			b.Say("s", session.ModeSteer)
			_, err := h.Steer(b.Ctx)
			expect.OK(t, err)
			more, err := h.Finish(b.Ctx, protocol.End{Status: status, Error: "why", Untaken: []string{"s"}})
			expect.OK(t, err)
			expect.Equal(t, "has a next turn", more, true)
			expect.Equal(t, "its message", h.Turn().Message.ID, "s")
			expect.Equal(t, "status of now", b.Outcome("now").Status, status)
			b.Finish(h)
			expect.Equal(t, "status of s", b.Outcome("s").Status, session.StatusDone)
		})
	}
}

// A renewal that knows only the turn before is no sign that the owner knows of the next one: its
// death counts nothing.
func TestRenewalOfTheTurnBefore(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.Immediate = true })
	b.SayAll("a", "b")
	h := b.Claim()
	before, token := h.Turn().Fence, h.Token()
	expect.Equal(t, "has a next turn", b.Finish(h), true)
	seq := func() string { return b.Redis.HGet(b.Ctx, b.Keys.Run(), "seq").Val() }
	was := seq()
	expect.OK(t, protocol.Do(b.Ctx, b.Redis, "renew", protocol.KeysOf(actors.Key, b.Info().TranscriptID), nil,
		"token", token, "fence", before, "ttl", 60_000).Err())
	expect.Equal(t, "the last batch of events", seq(), was) // another would be written again
	b.Die()
	turn := b.Claim().Turn()
	expect.Equal(t, "message", turn.Message.ID, "b")
	expect.Equal(t, "resume", turn.Resume, "")
	expect.Equal(t, "deaths", b.Redis.HGet(b.Ctx, b.Keys.Task(b.Task("b")), "deaths").Val(), "")
	expect.Equal(t, "interruptions", resumeRecord(b).Interruptions, 0)
}

// Each turn that writes to a transcript renews its TTL.
func TestTranscriptLivesAfterItsLastTurn(t *testing.T) {
	variants(t, func(t *testing.T, b *actors.Bench) {
		b.Say("a")
		b.Drain()
		for _, ids := range [][]string{{"b"}, {"c", "d"}} {
			transcript := b.Keys.Transcript(b.Info().TranscriptID)
			expect.OK(t, b.Redis.PExpire(b.Ctx, transcript, 10*time.Minute).Err())
			b.SayAll(ids...)
			expect.List(t, "runs", b.Drain(), ids...)
			if left := b.Redis.PTTL(b.Ctx, transcript).Val(); left < time.Hour {
				t.Errorf("the transcript expires in %s, after another turn", left)
			}
		}
	})
}

// A lease is trusted from before the request was sent, not from its reply.
func TestLeaseIsTrustedFromBeforeTheRequest(t *testing.T) {
	t.Parallel()
	const ttl = time.Hour
	for script, call := range map[string]func(b *actors.Bench, h *protocol.Claim) error{
		"renew": func(b *actors.Bench, h *protocol.Claim) error {
			return b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err
		},
		"journal": func(b *actors.Bench, h *protocol.Claim) error {
			return actors.Checkpoint(b.Ctx, h, []session.Entry{{Text: "x"}})
		},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.SentinelTTL = ttl })
			b.Say("a")
			h := b.Start()
			faults := &redistest.Faults{}
			b.Redis.AddHook(faults)
			gate := faults.GateReply(actors.Script(script))
			done := make(chan error, 1)
			go func() { done <- call(b, h) }()
			<-gate.Arrived()
			sent := time.Now()
			b.Pass(5 * time.Millisecond)
			gate.Release()
			expect.OK(t, <-done)
			if most := sent.Add(lease.Trusted(ttl)); h.Lease().Deadline().After(most) {
				t.Errorf("trusted for %s longer than Redis may keep it", h.Lease().Deadline().Sub(most))
			}
		})
	}
}
