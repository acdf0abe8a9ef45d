package protocol_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/agents"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// serves makes a worker that runs some agents. Sessions without an agent get the one that fits.
func serves(fits string, names ...string) actors.Setup {
	return func(c *protocol.Config) {
		c.AgentOf = func(string) string { return fits }
		c.Serves = func() []string { return names }
	}
}

// nobodyElse makes a worker that is the only living one.
func nobodyElse(c *protocol.Config) { c.Elsewhere = func() ([]string, bool) { return nil, true } }

// The first turn binds the session to an agent. A worker that does not run this agent gets nothing,
// writes nothing into the session, and leaves it to the others.
func TestTheClaimBindsAnAgent(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, serves("support", agents.Default, "support"))
	other := actors.NewWorker(t, b.Redis, "other", serves("support", agents.Default))
	b.Say("a")
	without := b.Dump()
	claims, err := other.Claim(b.Ctx, []string{actors.Key})
	expect.OK(t, err)
	expect.Equal(t, "claims of the other worker", len(claims), 0)
	due := b.Redis.ZScore(b.Ctx, rediskey.Due, actors.Key).Val()
	expect.Equal(t, "in seconds", int(time.UnixMilli(int64(due)).Sub(b.RedisTime()).Round(time.Second)/time.Second), 15)
	expect.OK(t, b.Redis.ZRem(b.Ctx, rediskey.Due, actors.Key).Err())
	actors.Same(t, "the rest", without, b.Dump())

	for _, next := range []string{"b", "c"} { // the second claim is the fast path's
		h := b.Start()
		expect.Equal(t, "agent", h.Turn().Agent, "support")
		b.Say(next)
		expect.Equal(t, "more", b.Finish(h), true)
		expect.Equal(t, "agent of the next turn", h.Turn().Agent, "support")
		b.Finish(h)
		claims, err = other.Claim(b.Ctx, []string{actors.Key})
		expect.OK(t, err)
		expect.Equal(t, "claims of the other worker", len(claims), 0)
		b.Say(next + "-later")
	}
	expect.Equal(t, "agent that no worker runs", b.Info().Needs, "") // the other worker does not know who else lives
	expect.Equal(t, "in the record", b.Redis.HGet(b.Ctx, b.Keys.Record(), "agent").Val(), "support")
}

// A session that had a turn before its agent was named keeps the default agent.
func TestASessionKeepsItsAgent(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	named := actors.NewWorker(t, b.Redis, "named", serves("support", agents.Default, "support"))
	b.Say("b")
	claims, err := named.Claim(b.Ctx, []string{actors.Key})
	expect.OK(t, err)
	expect.Equal(t, "agent", claims[0].Turn().Agent, agents.Default)
}

// Another agent begins with another transcript. A running turn ends with its own, and then the
// session is released.
func TestAnotherAgentBeginsWithATranscript(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{false, true} {
		t.Run(fmt.Sprintf("running=%v", running), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, serves("support", "support", "coder"))
			b.Say("a")
			h := b.Start()
			old := h.Turn().TranscriptID
			if !running {
				b.Finish(h)
			}
			now, err := protocol.Rotate{Session: actors.Key, Until: b.RedisTime().Add(time.Minute).UnixMilli(), Agent: "coder"}.Do(b.Ctx, b.Redis)
			id := now.ID
			expect.OK(t, err)
			b.Say("b")
			if running {
				expect.Equal(t, "agent of the running turn", h.Turn().Agent, "support")
				expect.Equal(t, "more", b.Finish(h), false)
			}
			next := b.Start()
			expect.Equal(t, "agent", next.Turn().Agent, "coder")
			expect.Equal(t, "transcript", next.Turn().TranscriptID, id)
			expect.Equal(t, "another one", id != old, true)
			b.Say("c")
			expect.Equal(t, "more", b.Finish(next), true)
		})
	}
}

// A dead worker's turn goes on with its own agent. The one that was chosen meanwhile is the next turn's.
func TestADeathAndAnotherAgent(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, serves("support", "support", "coder"))
	b.Say("a")
	b.Renew(b.Start())
	_, err := protocol.Rotate{Session: actors.Key, Until: b.RedisTime().Add(time.Minute).UnixMilli(), Agent: "coder"}.Do(b.Ctx, b.Redis)
	expect.OK(t, err)
	b.Die()
	h := b.Start()
	expect.Equal(t, "agent", h.Turn().Agent, "support")
	b.Say("b")
	expect.Equal(t, "more", b.Finish(h), false)
	expect.Equal(t, "the next agent", b.Start().Turn().Agent, "coder")
}

// An agent that no living worker runs is in the session's record, and the session is one that needs
// attention, until a worker runs it.
func TestNobodyRunsTheAgent(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	var seen []string
	elsewhere := []string{"support"}
	other := actors.NewWorker(t, b.Redis, "other", serves("support", agents.Default), func(c *protocol.Config) {
		c.Elsewhere = func() ([]string, bool) { return elsewhere, true }
		c.Unserved = func(_, agent string, missing bool) bool {
			seen = append(seen, fmt.Sprint(agent, missing))
			return false
		}
	})
	look := func() {
		t.Helper()
		claims, err := other.Claim(b.Ctx, []string{actors.Key})
		expect.OK(t, err)
		expect.Equal(t, "claims", len(claims), 0)
	}
	b.Say("a")
	look()
	expect.Equal(t, "needs, while another worker runs it", b.Info().Needs, "")
	elsewhere = nil
	look()
	expect.List(t, "reports", seen, fmt.Sprint("support", false), fmt.Sprint("support", true))
	expect.Equal(t, "needs", b.Info().Needs, "support")
	expect.Equal(t, "to look at", b.IsIn(rediskey.Attention, actors.Key), true)

	b.Worker = actors.NewWorker(t, b.Redis, "named", serves("support", "support"))
	b.Start()
	expect.Equal(t, "needs in its turn", b.Info().Needs, "")
	b.Die() // its message is neither waiting nor delayed
	tick(b)
	look()
	expect.Equal(t, "needs after a death", b.Info().Needs, "support")
	h := b.Start()
	b.Finish(h)
	expect.Equal(t, "needs after it", b.Info().Needs, "")
	b.Say("b")
	old := fmt.Sprint("support ", b.RedisTime().Add(-time.Hour).UnixMilli())
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Record(), "needs", old).Err())
	expect.Equal(t, "needs of an hour ago", b.Info().Needs, "")
}

// activity is the index of sessions by activity.
var activity = regexp.MustCompile(`turnstile:sessions .*`)

// A message gives its agent to a session without one, and to no other. A repetition changes nothing.
func TestAMessageNamesTheAgent(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, serves("support", agents.Default, "support", "coder"))
	chat := b.Client.Session(actors.Key)
	send := func(m turnstile.Message) error {
		m.Text = m.ID
		_, err := chat.Send(b.Ctx, m)
		return err
	}
	refused := func(what string, m turnstile.Message, want error) {
		t.Helper()
		before := activity.ReplaceAllString(b.Dump(), "")
		if err := send(m); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		actors.Same(t, what, before, activity.ReplaceAllString(b.Dump(), ""))
	}
	refused("a wrong name", turnstile.Message{ID: "m0", Agent: "no name"}, session.ErrInvalid)
	expect.OK(t, send(turnstile.Message{ID: "m1", Agent: "coder"}))
	refused("another agent", turnstile.Message{ID: "m2", Agent: "support"}, session.ErrOtherAgent)
	refused("another agent, later", turnstile.Message{ID: "m2", Agent: "support", Delay: time.Hour}, session.ErrOtherAgent)
	refused("the id with another agent", turnstile.Message{ID: "m1", Agent: "support"}, session.ErrConflict)
	expect.OK(t, send(turnstile.Message{ID: "m1", Agent: "coder"}))
	expect.OK(t, send(turnstile.Message{ID: "m2", Agent: "coder"}))
	expect.OK(t, send(turnstile.Message{ID: "m3"}))
	h := b.Start()
	expect.Equal(t, "agent", h.Turn().Agent, "coder")
	for range 3 {
		b.Finish(h)
	}
	expect.Equal(t, "agent", b.Info().Agent, "coder")

	_, err := chat.NewTranscript(b.Ctx, turnstile.TranscriptConfig{Agent: agents.Default})
	expect.OK(t, err)
	refused("the agent of before", turnstile.Message{ID: "m4", Agent: "coder"}, session.ErrOtherAgent)
	expect.OK(t, send(turnstile.Message{ID: "m4", Agent: agents.Default}))
	expect.Equal(t, "agent of the new conversation", b.Start().Turn().Agent, agents.Default)
}

// A session that had a turn before its agent was named has the default one, also for a message that
// names another.
func TestASessionWithoutANameHasTheDefaultAgent(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	expect.Equal(t, "agent", b.Info().Agent, agents.Default)
	_, err := b.Client.Session(actors.Key).Send(b.Ctx, turnstile.Message{Text: "b", Agent: "coder"})
	if !errors.Is(err, session.ErrOtherAgent) {
		t.Errorf("a message for another agent: %v", err)
	}
}

// A claim whose reply was lost is repeated. If another agent was chosen meanwhile, the turn keeps its own.
func TestARepeatedClaimAndAnotherAgent(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, serves("support", "support", "coder"))
	b.Say("a")
	worker := actors.NewWorker(t, b.Redis, "repeats", serves("support", "support", "coder"), func(c *protocol.Config) { c.SentinelTTL = time.Minute })
	first := true
	b.Redis.AddHook(actors.Hook(func(cmds []redis.Cmder, send func() error) error {
		cmd, ok := cmds[0].(redistest.Reply)
		if !ok || !actors.Script("claim")(cmd) || !first {
			return send()
		}
		first = false
		if err := send(); err != nil || strings.Contains(fmt.Sprint(cmd.Val()), "special") {
			first = true
			return err // NOSCRIPT, or the fast path
		}
		_, err := protocol.Rotate{Session: actors.Key, Until: b.RedisTime().Add(time.Minute).UnixMilli(), Agent: "coder"}.Do(b.Ctx, b.BareRedis())
		expect.OK(t, err)
		return send() // as go-redis does
	}))
	claims, err := worker.Claim(b.Ctx, []string{actors.Key})
	expect.OK(t, err)
	expect.Equal(t, "sent twice", first, false)
	expect.Equal(t, "claims", len(claims), 1)
	expect.Equal(t, "agent", claims[0].Turn().Agent, "support")
}

// Without a message no agent would run, so a session is nobody's: a worker without its agent finds it empty, and
// does not look again.
func TestNothingIsUnserved(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, serves("support", "support"))
	b.Say("a")
	b.Drain()
	other := actors.NewWorker(t, b.Redis, "other", serves("support", agents.Default), nobodyElse)
	claims, err := other.Claim(b.Ctx, []string{actors.Key})
	expect.OK(t, err)
	expect.Equal(t, "claims", len(claims), 0)
	expect.Equal(t, "needs", b.Info().Needs, "")
	expect.Equal(t, "due", b.IsIn(rediskey.Due, actors.Key), false)
}
