package protocol_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// Third to fifth invariants (B85): whatever happens in whatever order, each accepted message has
// one outcome, its entries are in the transcript exactly if it was done, and queued messages keep
// their order.
func TestB85_NothingAcknowledgedIsDropped(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			randomLife(t, rand.New(rand.NewPCG(seed, 7)))
		})
	}
}

func randomLife(t *testing.T, r *rand.Rand) {
	b := actors.NewBench(t, func(c *protocol.Config) { c.Line.Cap = 6; c.StuckLimit = 4 })
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	var taken, plain []string // acknowledged; of these, in mode queue
	var h *protocol.Claim
	var turns []string // transcript IDs, the oldest first
	began := func() {
		if sid := h.Turn().TranscriptID; !slices.Contains(turns, sid) {
			turns = append(turns, sid)
		}
	}
	start := func() {
		b.Overdue(rediskey.Owned)
		b.Overdue(rediskey.Due)
		b.Reap()
		b.Due()
		b.Sweep()
		if len(b.Pop()) == 0 {
			return
		}
		claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key})
		expect.OK(t, err)
		if len(claims) == 0 {
			b.DoubtEnds()
			return
		}
		h = claims[0]
		began()
		if err := h.Promote(b.Ctx); errors.Is(err, protocol.ErrStopRequested) {
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusStopped})
			expect.OK(t, err)
		}
	}
	end := func(status session.Status, release bool) {
		turn := h.Turn()
		e := protocol.End{Status: status, Release: release}
		if status == session.StatusDone {
			e.Entries = []session.Entry{{Text: turn.Message.ID}}
		}
		more, err := h.Finish(b.Ctx, e)
		expect.OK(t, err)
		if more {
			began()
			if errors.Is(h.Promote(b.Ctx), protocol.ErrStopRequested) {
				t.Error("a stop was requested of a new turn")
			}
		} else {
			h = nil
		}
	}
	for i := range 120 {
		if r.IntN(3) == 0 { // the next command is sent twice
			faults.RunTwice(redistest.Named("evalsha", "eval"), 1)
		}
		switch n := r.IntN(12); {
		case n < 5:
			id := fmt.Sprint("m", i)
			mode := []session.Mode{"", "", "", session.ModeInterrupt, session.ModeReject}[r.IntN(5)]
			told := b.Say(id, mode)
			switch told.Status {
			case receipt.Accepted, receipt.Queued:
				taken = append(taken, id)
				if mode == "" {
					plain = append(plain, id)
				}
			case receipt.Refused:
				expect.Equal(t, "stored though refused", b.State(id), "")
			default:
				t.Errorf("told %+v", told)
			}
		case h == nil:
			start()
			if h != nil && h.Lease().Held() != nil {
				h = nil
			}
		case n < 8:
			end(session.StatusDone, r.IntN(3) == 0)
		case n == 8:
			if err := h.Park(b.Ctx, protocol.Parking{Failed: errors.New("flaky"), Wait: time.Duration(r.IntN(2))}); err == nil {
				h = nil
			} else {
				end(session.StatusInterrupted, false)
			}
		case n == 9:
			if err := h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}); err == nil {
				h = nil
			} else {
				end(session.StatusInterrupted, false)
			}
		case n == 10:
			b.Die()
			h = nil
		case r.IntN(6) == 0:
			_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
			expect.OK(t, err)
		}
	}
	faults.Clear()
	for range 200 {
		if h == nil {
			start()
		} else if h.Lease().Held() != nil {
			h = nil
		} else {
			end(session.StatusDone, false)
		}
		if h == nil && b.Redis.Exists(b.Ctx, b.Keys.Pending(), b.Keys.Active()).Val() == 0 {
			break
		}
	}
	var effects []string
	for _, sid := range turns {
		effects = append(effects, b.Transcript(sid)...)
	}
	var order []string
	for _, id := range taken {
		o := b.Outcome(id)
		done := 0
		for _, e := range effects {
			if e == id {
				done++
			}
		}
		expect.Equal(t, fmt.Sprintf("effects of %s, which is %s", id, o.Status), done, map[bool]int{true: 1}[o.Status == session.StatusDone])
		if o.Status == session.StatusDone && slices.Contains(plain, id) {
			order = append(order, id)
		}
	}
	effects = slices.DeleteFunc(effects, func(id string) bool { return !slices.Contains(plain, id) })
	expect.List(t, "order", effects, order...)
	noHalves(b)
	if t.Failed() {
		t.Log(strings.Join(taken, " "))
	}
}
