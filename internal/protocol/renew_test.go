package protocol_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/lease"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A renewal finds the session released while the worker does not know it yet, because the reply was
// lost. That is no loss.
func TestRenewWhileAReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for i := range 30 {
		b.Say(strconv.Itoa(i))
		h := b.Claim()
		faults := &redistest.Faults{}
		b.Redis.AddHook(faults)
		faults.LoseReply(actors.Script("finish"), 1)
		var renewals sync.WaitGroup
		over, end := context.WithCancel(b.Ctx)
		for range 3 {
			renewals.Go(func() {
				for over.Err() == nil {
					b.Worker.Renew(b.Ctx, []*protocol.Claim{h})
				}
			})
		}
		_, err := h.Finish(b.Ctx, b.Done(h))
		end()
		renewals.Wait()
		faults.Clear()
		expect.OK(t, err)
	}
}

// Renewals run while Finish goes from turn to turn.
func TestRenewWhileFinishing(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		b.Say(id)
	}
	h := b.Claim()
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; r.Err != nil && h.Lease().Held() == nil {
				t.Errorf("renew: %v", r.Err)
			}
		}
	})
	for b.Finish(h) {
	}
	close(stop)
	group.Wait()
	expect.List(t, "what waits", b.Waiting())
}

// A renewal returns requests to the turn, and renews asynq's lease until the sentinel's end. Before
// its first lease, asynqmon does not count the turn as an orphan.
func TestRenew(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b", "c")
	h := b.Start()
	b.Redis.PExpire(b.Ctx, b.Keys.Sentinel(), 5*time.Second)
	expect.Equal(t, "leases before the first renewal", b.Redis.ZCard(b.Ctx, b.Keys.Lease()).Val(), 0)
	active, err := b.Inspector().ListActiveTasks(rediskey.Queue(actors.Key))
	expect.OK(t, err)
	if len(active) != 1 || active[0].IsOrphaned {
		t.Errorf("active in asynqmon: %+v", active)
	}
	r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]
	expect.OK(t, r.Err)
	expect.Equal(t, "waiting", r.Waiting, 2)
	expect.Equal(t, "requested", r.Requested, nil)
	expect.Equal(t, "fence", r.Fence, h.Turn().Fence)
	if left := b.Redis.PTTL(b.Ctx, b.Keys.Sentinel()).Val(); left < 50*time.Second {
		t.Errorf("the sentinel has %s left", left)
	}
	if score := b.Redis.ZScore(b.Ctx, b.Keys.Lease(), b.Task("a")).Val(); score < float64(time.Now().Unix()+50) {
		t.Errorf("asynq's lease ends at %v", score)
	}
	_, err = b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; !errors.Is(r.Requested, protocol.ErrStopRequested) {
		t.Errorf("requested after a stop: %v", r.Requested)
	}
	b.Die()
	r = b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]
	if !errors.Is(r.Err, lease.ErrLost) || !errors.Is(h.Lease().Held(), lease.ErrLost) {
		t.Errorf("without a sentinel: %v, lease %v", r.Err, h.Lease().Held())
	}
}

// A finish has released the sentinel, and its reply is in flight. A renewal that finds the sentinel
// gone does not undo it.
func TestRenewalDuringARelease(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a")
	h := b.Start()
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	for _, s := range variantsOf("finish") {
		expect.OK(t, s.Load(b.Ctx, b.Redis).Err())
	}
	gate := faults.GateReply(actors.Script("finish"))
	ended := make(chan error, 1)
	go func() {
		_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Reply: "re: a"})
		ended <- err
	}()
	<-gate.Arrived()
	expect.Equal(t, "sentinels", b.Redis.Exists(b.Ctx, b.Keys.Sentinel()).Val(), 0)
	for _, r := range b.Worker.Renew(b.Ctx, []*protocol.Claim{h}) {
		expect.OK(t, r.Err)
	}
	gate.Release()
	expect.OK(t, <-ended)
}

// An owner that trusted its lease longer than the sentinel lives could run at the same time as the
// next owner. Each move that extends the lease has to extend the sentinel.
func TestLeaseEndsBeforeTheSentinel(t *testing.T) {
	t.Parallel()
	moves := map[string]func(b *actors.Bench, h *protocol.Claim) error{
		"promote": func(b *actors.Bench, h *protocol.Claim) error { return h.Promote(b.Ctx) },
		"renew": func(b *actors.Bench, h *protocol.Claim) error {
			return b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err
		},
		"emit": func(b *actors.Bench, h *protocol.Claim) error {
			return h.Emit(b.Ctx, []session.Event{{Type: session.EventNotice, Text: "hi"}})
		},
		"finish": func(b *actors.Bench, h *protocol.Claim) error {
			if !b.Finish(h) {
				return errors.New("there was no next turn")
			}
			return nil
		},
	}
	for name, move := range moves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, h := ageing(t)
			expect.OK(t, move(b, h))
			trusted(b, h)
		})
		if name == "renew" {
			continue // it is not repeated by itself
		}
		t.Run(name+" again after a lost reply", func(t *testing.T) {
			t.Parallel()
			b, h := ageing(t)
			loss := &slowLoss{script: name, passed: func() { waitForLeft(b, 700*time.Millisecond) }}
			b.Redis.AddHook(actors.Hook(loss.around))
			if err := move(b, h); err != nil && !errors.Is(err, lease.ErrLost) {
				t.Fatal(err)
			}
			trusted(b, h)
		})
	}
}

// The reply of a claim is lost, and the repetition comes later than the script that set the
// sentinel.
func TestLeaseOfAClaimThatWasRepeated(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	var before time.Time
	b.Redis.AddHook(actors.SendTwice(actors.Script("claim"), func() { before = time.Now() }))
	h := b.Claim()
	if over := h.Lease().Deadline().Sub(before.Add(b.Worker.Config().SentinelTTL * 9 / 10)); over > 0 {
		t.Errorf("the lease is trusted for %s longer than it may be", over)
	}
}

// ageing is a claim of one second, part of which has passed.
func ageing(t *testing.T) (*actors.Bench, *protocol.Claim) {
	t.Helper()
	b := actors.NewBench(t, func(c *protocol.Config) { c.SentinelTTL = time.Second })
	b.SayAll("a", "b")
	h := b.Claim()
	waitForLeft(b, 700*time.Millisecond)
	return b, h
}

// waitForLeft waits until the sentinel has at most d to live.
func waitForLeft(b *actors.Bench, d time.Duration) {
	b.Helper()
	expect.Soon(b, "the sentinel to age", func() bool {
		return b.Redis.PTTL(b.Ctx, b.Keys.Sentinel()).Val() <= d
	})
}

func trusted(b *actors.Bench, h *protocol.Claim) {
	b.Helper()
	if h.Lease().Held() != nil {
		return
	}
	lives := time.Now().Add(b.Redis.PTTL(b.Ctx, b.Keys.Sentinel()).Val())
	if over := h.Lease().Deadline().Sub(lives); over > 0 {
		b.Errorf("the lease is trusted for %s longer than the sentinel lives", over.Round(time.Millisecond))
	}
}

// slowLoss lets time pass after a script's first call and loses the reply.
type slowLoss struct {
	script string
	passed func()
	done   bool
}

func (f *slowLoss) around(cmds []redis.Cmder, send func() error) error {
	err := send()
	if f.done || err != nil || !actors.Script(f.script)(cmds[0]) {
		return err
	}
	f.done = true
	f.passed()
	cmds[0].SetErr(redistest.ErrLostReply)
	return redistest.ErrLostReply
}

// Each move that the owner counts its lease from extends the sentinel, also when it is repeated or
// refused.
func TestRepeatedMovesExtendTheLease(t *testing.T) {
	t.Parallel()
	const short = 10 * time.Second
	for name, move := range map[string]func(b *actors.Bench, h *protocol.Claim){
		"dismiss, sent twice": func(b *actors.Bench, h *protocol.Claim) {
			b.Redis.AddHook(actors.SendTwice(actors.Script("dismiss"), func() { b.Redis.PExpire(b.Ctx, b.Keys.Sentinel(), short) }))
			expect.OK(b, h.Dismiss(b.Ctx, h.Turn().Collected[0], protocol.End{Status: session.StatusExpired, Error: "too old"}))
		},
		"promote, refused": func(b *actors.Bench, h *protocol.Claim) {
			_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
			expect.OK(b, err)
			b.Redis.PExpire(b.Ctx, b.Keys.Sentinel(), short)
			if err := h.Promote(b.Ctx); !errors.Is(err, protocol.ErrStopRequested) {
				b.Errorf("promote: %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			h := b.Start()
			b.SayCollected("b", "c")
			b.Finish(h)
			move(b, h)
			if left := b.Redis.PTTL(b.Ctx, b.Keys.Sentinel()).Val(); left < 2*short {
				t.Errorf("the sentinel ends in %s, and the owner trusts in a minute", left)
			}
		})
	}
}

// A move that Redis refuses for a while is repeated while the lease lasts.
func TestPassingRefusals(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"NOREPLICAS Not enough good replicas to write.",
		"ERR max number of clients reached",
	} {
		t.Run(text[:8], func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			h := b.Start()
			faults := &redistest.Faults{}
			b.Redis.AddHook(faults)
			faults.FailBefore(actors.Script("finish"), 2, redistest.ReplyError(text))
			b.Finish(h)
			expect.Equal(t, "end", b.Outcome("a").Status, session.StatusDone)
		})
	}
}

// An owner that lost its lease and lives has not died with its message, whether it says so before
// the next claim, after it, or while that claim's verdict is in doubt.
func TestSurvivorsAreNotCounted(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{"before the claim": 3, "after the claim": 3, "in doubt": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.StuckLimit = limit })
			b.SayAll("a", "b")
			var sid string
			for n := range 5 {
				h := b.Start()
				turn := h.Turn()
				expect.Equal(t, "message", turn.Message.ID, "a")
				expect.Equal(t, "redelivered", turn.Redelivered, n)
				if n > 0 {
					expect.Equal(t, "session id", turn.TranscriptID, sid)
					expect.Equal(t, "reset", turn.Reset, "")
				}
				sid = turn.TranscriptID
				b.Die()
				want := resume.ReasonLeaseLost
				var next *protocol.Claim
				switch name {
				case "after the claim":
					next, want = b.Claim(), resume.ReasonCrash
					expect.Equal(t, "interruptions before the word", resumeRecord(b).Interruptions, 1)
					expect.OK(t, h.Survive(b.Ctx))
				case "in doubt":
					b.ClaimNothing("the owner may live")
					b.Redis.Del(b.Ctx, rediskey.Ready)
				}
				expect.OK(t, h.Survive(b.Ctx))
				if name == "in doubt" && !b.IsIn(rediskey.Ready, actors.Key) {
					t.Error("the session was not woken")
				}
				if next == nil {
					next = b.Claim()
				}
				expect.Equal(t, "resume", next.Turn().Resume, want)
				r := resumeRecord(b)
				expect.Equal(t, "interruptions", r.Interruptions, 0)
				expect.Equal(t, "reason", r.Reason, resume.ReasonLeaseLost)
				expect.Equal(t, "suspended", r.Suspended, false)
				expect.OK(t, next.Park(b.Ctx, protocol.Parking{Interrupted: ""})) // for the next round; it counts nothing
				expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("a")), "redelivered", n+1).Err())
			}
			h := b.Start()
			b.Finish(h)
			expect.Equal(t, "status", b.Outcome("a").Status, session.StatusDone)
			expect.Equal(t, "record", resumeRecord(b), resume.Record{})
		})
	}
}

// Deaths before the agent's start are taken back, too.
func TestSurvivorsOfAStartingTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.StuckLimit = 2 })
	b.Say("a")
	for range 4 {
		h := b.Claim()
		b.Renew(h)
		b.Die()
		next := b.Claim()
		expect.OK(t, h.Survive(b.Ctx))
		expect.OK(t, h.Survive(b.Ctx)) // its reply was lost
		expect.Equal(t, "deaths", b.Redis.HGet(b.Ctx, b.Keys.Task(b.Task("a")), "deaths").Val(), "0")
		expect.OK(t, next.Park(b.Ctx, protocol.Parking{Interrupted: ""}))
	}
}

// Other counts stay: only the owner's own turn is taken back, once.
func TestSurvivorsTakeBackOnlyTheirOwn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("poison")
	first := b.Start()
	b.Die()
	b.Start()
	b.Die()
	b.Start()
	expect.Equal(t, "interruptions", resumeRecord(b).Interruptions, 2)
	for range 2 {
		expect.OK(t, first.Survive(b.Ctx))
		expect.Equal(t, "interruptions", resumeRecord(b).Interruptions, 1)
	}
	expect.Equal(t, "reason", resumeRecord(b).Reason, resume.ReasonCrash)
	b.Die()
	b.Start()
	b.Die()
	b.Doubt()
	b.ClaimNothing("its only message was archived")
	if o := b.Outcome("poison"); !strings.Contains(o.Error, "its worker died in 3 turns in a row") {
		t.Errorf("error %q", o.Error)
	}
	expect.OK(t, first.Survive(b.Ctx))
	expect.Equal(t, "suspended", resumeRecord(b).Suspended, true)
}

// A survivor does not undo a turn with a stored end, and a later transcript's count stays.
func TestSurvivorsOfAnEndedTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	old := b.Start()
	b.Die()
	h := b.Start()
	b.Finish(h)
	expect.OK(t, h.Promote(b.Ctx))
	b.Die()
	b.Start()
	expect.Equal(t, "interruptions", resumeRecord(b).Interruptions, 1)
	expect.OK(t, old.Survive(b.Ctx))
	expect.Equal(t, "interruptions", resumeRecord(b).Interruptions, 1)
	expect.Equal(t, "a", b.Outcome("a").Status, session.StatusDone)
}
