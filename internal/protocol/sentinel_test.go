package protocol_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/lease"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

func TestB01_SentinelIsUpFromTheClaim(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Claim()
	expect.Equal(t, "sentinel", b.Redis.Get(b.Ctx, b.Keys.Sentinel()).Val(), h.Token())
	info := b.Info()
	expect.Equal(t, "phase", info.Phase, "starting")
	expect.Equal(t, "worker", info.Worker, b.Worker.Config().Worker)
	expect.Equal(t, "fence", info.Fence, h.Turn().Fence)
	expect.Equal(t, "turn", info.Turn, h.Turn().ID)
	expect.List(t, "messages", info.Messages, "a")
	if ttl := b.Redis.PTTL(b.Ctx, b.Keys.Sentinel()).Val(); ttl <= 0 || ttl > b.Worker.Config().SentinelTTL {
		t.Errorf("the sentinel lives %s", ttl)
	}
}

func TestB02_FreedOnReturn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	expect.Equal(t, "more", b.Finish(h), false)
	expect.Equal(t, "sentinels", b.Redis.Exists(b.Ctx, b.Keys.Sentinel()).Val(), 0)
	expect.Equal(t, "phase", b.Info().Phase, session.PhaseIdle)
	if err := h.Lease().Context().Err(); err == nil {
		t.Error("the lease of a released claim is still valid")
	}
	if errors.Is(h.Lease().Held(), lease.ErrLost) {
		t.Error("a release is not a loss")
	}
}

// Failed, expired, stopped and undecodable turns all end in one of these moves, also from the
// starting phase (B03, B04, B68).
func TestB03_B04_B68_FreedHoweverItEnds(t *testing.T) {
	t.Parallel()
	ends := map[string]func(b *actors.Bench, h *protocol.Claim) error{
		"failed": func(b *actors.Bench, h *protocol.Claim) error {
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "panic: boom"})
			return err
		},
		"expired": func(b *actors.Bench, h *protocol.Claim) error {
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusExpired, Error: "too old"})
			return err
		},
		"stopped": func(b *actors.Bench, h *protocol.Claim) error {
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusStopped})
			return err
		},
		"retry": func(b *actors.Bench, h *protocol.Claim) error {
			return h.Park(b.Ctx, protocol.Parking{Failed: errors.New("boom"), Wait: time.Hour})
		},
		"requeue": func(b *actors.Bench, h *protocol.Claim) error {
			return h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"})
		},
	}
	for name, end := range ends {
		for _, phase := range []string{"starting", "running"} {
			t.Run(name+"/"+phase, func(t *testing.T) {
				t.Parallel()
				b := actors.NewBench(t)
				b.Say("a")
				h := b.Claim()
				if phase == "running" {
					expect.OK(t, h.Promote(b.Ctx))
				}
				expect.OK(t, end(b, h))
				expect.Equal(t, "sentinels", b.Redis.Exists(b.Ctx, b.Keys.Sentinel()).Val(), 0)
				switch name {
				case "retry", "requeue":
					expect.Equal(t, "state", b.State("a"), "active")
				default:
					o := b.Outcome("a")
					expect.Equal(t, "status", string(o.Status), name)
					expect.Equal(t, "state", b.State("a"), "archived")
				}
			})
		}
	}
}

func TestB05_SecondMessageIsAFollowup(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	for i, id := range []string{"b", "c"} {
		r := b.Say(id)
		expect.Equal(t, "status", r.Status, receipt.Queued)
		expect.Equal(t, "position", r.Position, i+2)
	}
	b.ClaimNothing("it is owned")
	list, err := b.Client.Operate(actors.Key).FollowUps(b.Ctx)
	expect.OK(t, err)
	if len(list) != 2 || list[0].ID != "b" || list[0].Text != "b" || list[1].ID != "c" || list[0].ArrivedAt.IsZero() {
		t.Errorf("follow-ups: %+v", list)
	}
	expect.Equal(t, "has a next turn", b.Finish(h), true)
	list, err = b.Client.Operate(actors.Key).FollowUps(b.Ctx)
	expect.OK(t, err)
	if len(list) != 1 || list[0].ID != "c" {
		t.Errorf("while b runs, the follow-ups are %+v", list)
	}
	b.Finish(h)
	b.Finish(h)
	list, err = b.Client.Operate(actors.Key).FollowUps(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "follow-ups at the end", len(list), 0)
}

func TestB06_PromoteKeepsTheToken(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Claim()
	token, fence := h.Token(), h.Turn().Fence
	expect.OK(t, h.Promote(b.Ctx))
	expect.Equal(t, "phase", b.Info().Phase, "running")
	expect.Equal(t, "sentinel", b.Redis.Get(b.Ctx, b.Keys.Sentinel()).Val(), token)
	expect.Equal(t, "fence", b.Info().Fence, fence)
	b.Say("b", session.ModeInterrupt)
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; !errors.Is(r.Requested, protocol.ErrInterruptRequested) {
		t.Errorf("requested: %v", r.Requested)
	}
}

func TestB07_AStartingTurnIsNotInterrupted(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	h := b.Claim()
	r := b.Say("c", session.ModeInterrupt)
	expect.Equal(t, "status", r.Status, receipt.Queued)
	expect.Equal(t, "position", r.Position, 3)
	expect.OK(t, h.Promote(b.Ctx))
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; r.Requested != nil {
		t.Errorf("requested: %v", r.Requested)
	}
	expect.List(t, "the line", b.Waiting(), "b", "c")
}

func TestB08_CommandsTakeNoSentinel(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for _, text := range []string{"/help", "/status", " /status now ", "/stop"} {
		r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{Text: text})
		expect.OK(t, err)
		expect.Equal(t, "status", r.Status, receipt.Answered)
		if r.Reply == "" {
			t.Errorf("%s has no reply", text)
		}
	}
	for _, text := range []string{"/sotp", "/Status", " /titel My talk"} { // a mistyped command is no message
		r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{Text: text})
		expect.OK(t, err)
		expect.Equal(t, "status of "+text, r.Status, receipt.Answered)
		if !r.Invalid || !strings.HasPrefix(r.Reply, "Unknown command ") {
			t.Errorf("%s: %+v", text, r)
		}
	}
	expect.Equal(t, "database", b.Dump(), "")
	for text, want := range map[string]string{"//status": "/status", "//sotp": "/sotp", "/compact": "/compact", "/sotp now": "/sotp now", "/unknown": "/unknown", "/stop\nnow": "/stop\nnow"} {
		r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{Text: text})
		expect.OK(t, err)
		expect.Equal(t, "status of "+text, r.Status, receipt.Accepted)
		h := b.Claim()
		expect.Equal(t, "text", h.Turn().Message.Text, want)
		b.Finish(h)
	}
}

func TestB09_AStopWhileStartingPreventsTheTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Claim()
	r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{Text: "/stop"})
	expect.OK(t, err)
	if !strings.Contains(r.Reply, "starting up") {
		t.Errorf("reply: %q", r.Reply)
	}
	expect.List(t, "the line", b.Waiting())
	if err := h.Promote(b.Ctx); !errors.Is(err, protocol.ErrStopRequested) {
		t.Errorf("promote: %v", err)
	}
	expect.Equal(t, "phase", b.Info().Phase, "starting")
	if err := h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}); !errors.Is(err, protocol.ErrStopRequested) {
		t.Errorf("requeue: %v", err)
	}
	_, err = h.Finish(b.Ctx, protocol.End{Status: session.StatusStopped, Error: "stopped by user"})
	expect.OK(t, err)
	expect.Equal(t, "status", b.Outcome("a").Status, session.StatusStopped)
}

// First invariant: of many concurrent claims one wins, and each message runs once (B65).
func TestB65_ConcurrentClaims(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const workers, messages = 8, 20
	var want []string
	for i := range messages {
		want = append(want, string(rune('a'+i)))
	}
	b.SayAll(want...)
	var mu sync.Mutex
	var ran []string
	var inside int
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			c := actors.NewWorker(t, b.Redis, "any")
			for b.Redis.Exists(b.Ctx, b.Keys.Pending(), b.Keys.Active()).Val() > 0 {
				claims, err := c.Claim(b.Ctx, []string{actors.Key})
				if err != nil {
					t.Error(err)
					return
				}
				for _, h := range claims {
					mu.Lock()
					inside++
					expect.Equal(t, "owners", inside, 1)
					ran = append(ran, h.Turn().Message.ID)
					inside--
					mu.Unlock()
					if _, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Release: true}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	expect.List(t, "order", ran, want...)
}

func TestB69_ClaimOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.ClaimNothing("there is none")
	expect.Equal(t, "database", b.Dump(), "")
	ctx, gone := b.Ctx, b.Redis.(*redis.Client)
	closed := redis.NewClient(gone.Options())
	expect.OK(t, closed.Close())
	if _, err := actors.NewWorker(t, closed, "disconnected").Claim(ctx, []string{actors.Key}); err == nil {
		t.Error("a claim without Redis has no error")
	}
	for _, bad := range []string{"", "-x", "a b", "a/b", strings.Repeat("k", 257)} {
		if _, err := receipt.Input(ctx, b.Client.Session(bad), turnstile.Message{Text: "x"}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("key %q: %v", bad, err)
		}
	}
	for _, m := range []turnstile.Message{{}, {Text: " \n"}, {Text: "x", ID: "a/b"}, {Text: "x", Mode: "loud"}, {Text: "\xff"}} {
		if _, err := receipt.Input(ctx, b.Client.Session(actors.Key), m); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("message %+v: %v", m, err)
		}
	}
	if _, err := receipt.Input(ctx, b.Client.Session(actors.Key), turnstile.Message{Text: "x", Delay: -time.Second}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("negative delay: %v", err)
	}
	expect.Equal(t, "database", b.Dump(), "")
}

// No two session keys share a Redis key, including their transcripts (B84).
func TestB84_SessionsShareNoKey(t *testing.T) {
	t.Parallel()
	owner := map[string]string{}
	for _, s := range []string{"a", "a:session", "a:transcript:x", "session:a", "a:t:x", "A", "a.", "a:pending", "lock:a"} {
		expect.OK(t, session.ValidateKey(s))
		names := protocol.KeysOf(s, "x")
		names = append(names, rediskey.For(s).Task(rediskey.TaskID(s, "m")), rediskey.For(s).Partial())
		for _, name := range names {
			if other := owner[name]; other != "" && other != s {
				t.Errorf("%s and %s share %s", s, other, name)
			}
			owner[name] = s
		}
	}
	b := actors.NewBench(t)
	for _, s := range []string{"x", "x:y"} {
		_, err := receipt.Input(b.Ctx, b.Client.Session(s), turnstile.Message{ID: "m", Text: s})
		expect.OK(t, err)
	}
	claims, err := b.Worker.Claim(b.Ctx, []string{"x", "x:y"})
	expect.OK(t, err)
	expect.Equal(t, "claims", len(claims), 2)
	for _, h := range claims {
		expect.Equal(t, "message", h.Turn().Message.Text, h.Session())
		_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Entries: []session.Entry{{Text: h.Session()}}})
		expect.OK(t, err)
		entries, err := actors.Transcript(b.Ctx, b.Client.Session(h.Session()), h.Turn().TranscriptID)
		expect.OK(t, err)
		if len(entries) != 1 || entries[0].Text != h.Session() {
			t.Errorf("transcript of %s: %+v", h.Session(), entries)
		}
	}
}
