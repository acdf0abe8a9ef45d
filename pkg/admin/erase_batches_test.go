package admin_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A script deletes 500 messages at a time. In the end nothing is left, not even unique locks. A
// turn that begins meanwhile keeps the rest.
func TestEraseInBatches(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	fill := func() {
		for i := range 700 {
			b.Say(fmt.Sprint("stopped", i))
		}
		_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
		expect.OK(t, err)
		for i := range 700 {
			b.Enqueue(fmt.Sprint("m", i), asynq.Unique(time.Hour))
		}
	}
	fill()
	calls, claimed := 0, false
	b.Redis.AddHook(actors.Behind(actors.Script("erase"), func() {
		if calls++; !claimed {
			claimed = true
			b.Claim()
		}
	}))
	if err := b.Client.Operate(actors.Key).Erase(b.Ctx); !errors.Is(err, session.ErrBusy) {
		t.Errorf("a turn has begun: %v", err)
	}
	s := b.Info()
	expect.Equal(t, "dead letters left", s.DeadLetters, 200)
	expect.Equal(t, "messages left in line", s.Waiting, 699)
	b.Die()
	calls = 0
	expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx))
	expect.Equal(t, "calls", calls, 3) // of 500 messages; of 500 other keys, locks among them; of the rest
	expect.List(t, "left", traces(b))
	fill()
	expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx))
	expect.List(t, "left", traces(b))
}

// A session after a thousand /new has as many transcripts.
func TestEraseOfManyTranscripts(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	p := b.Redis.Pipeline()
	for i := range 1200 {
		p.RPush(b.Ctx, b.Keys.Transcript(fmt.Sprint("earlier", i)), "{}")
	}
	_, err := p.Exec(b.Ctx)
	expect.OK(t, err)
	seen := &keysSeen{}
	b.Redis.AddHook(actors.Hook(seen.around))
	expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx))
	expect.Equal(t, "keys left", len(traces(b)), 0)
	expect.Equal(t, "the most keys of a call", seen.most, 528)
}

// keysSeen is the largest number of keys that a call of the erase script had.
type keysSeen struct{ most int }

func (k *keysSeen) around(cmds []redis.Cmder, send func() error) error {
	if actors.Script("erase")(cmds[0]) {
		n, _ := cmds[0].Args()[2].(int)
		k.most = max(k.most, n)
	}
	return send()
}
