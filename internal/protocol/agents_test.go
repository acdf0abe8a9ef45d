package protocol_test

import (
	"fmt"
	"testing"
	"time"

	"turnstile/internal/agents"
	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// serves makes a worker that runs some agents. Sessions without an agent get the one that fits.
func serves(fits string, names ...string) actors.Setup {
	return func(c *protocol.Config) {
		c.AgentOf = func(string) string { return fits }
		c.Serves = func() []string { return names }
	}
}

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
			old := h.Turn().SessionID
			if !running {
				b.Finish(h)
			}
			id, _, err := protocol.Rotate{Session: actors.Key, Until: b.RedisTime().Add(time.Minute).UnixMilli(), Agent: "coder"}.Do(b.Ctx, b.Redis)
			expect.OK(t, err)
			b.Say("b")
			if running {
				expect.Equal(t, "agent of the running turn", h.Turn().Agent, "support")
				expect.Equal(t, "more", b.Finish(h), false)
			}
			next := b.Start()
			expect.Equal(t, "agent", next.Turn().Agent, "coder")
			expect.Equal(t, "transcript", next.Turn().SessionID, id)
			expect.Equal(t, "another one", id != old, true)
			b.Say("c")
			expect.Equal(t, "more", b.Finish(next), true)
		})
	}
}

// A dead worker's message runs again with the agent that was chosen meanwhile.
func TestADeathAndAnotherAgent(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, serves("support", "support", "coder"))
	b.Say("a")
	b.Renew(b.Start())
	_, _, err := protocol.Rotate{Session: actors.Key, Until: b.RedisTime().Add(time.Minute).UnixMilli(), Agent: "coder"}.Do(b.Ctx, b.Redis)
	expect.OK(t, err)
	b.Die()
	h := b.Start()
	expect.Equal(t, "agent", h.Turn().Agent, "coder")
	b.Say("b")
	expect.Equal(t, "more", b.Finish(h), true)
}
