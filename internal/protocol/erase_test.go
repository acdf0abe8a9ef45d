package protocol_test

import (
	"fmt"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// An interrupted Erase may have deleted all that a stop had left to archive. No worker may search
// for it again and again then.
func TestEraseOfAnUnfinishedStop(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("now")
	b.Drain()
	for i := range 600 {
		b.Enqueue(fmt.Sprint("m", i))
	}
	b.StopAndDie(actors.Script("stop"))
	fence := b.Redis.HGet(b.Ctx, b.Keys.Run(), "fence").Val()
	for range 2 {
		expect.OK(t, protocol.Do(b.Ctx, b.Redis, "erase", protocol.KeysOf(actors.Key, ""), nil, "fence", fence, "size", 500, "unused", 0, "last", false, "keep", false).Err())
	}
	expect.Equal(t, "left of the stop", b.Redis.LLen(b.Ctx, b.Keys.Stopped()).Val(), 0)
	b.Say("later")
	b.Drain()
	b.Redis.Del(b.Ctx, rediskey.Due)
	b.ClaimNothing("nothing is left")
	expect.Equal(t, "is claimed again", b.IsIn(rediskey.Due, actors.Key), false)
	expect.Equal(t, "stopping", b.Redis.HGet(b.Ctx, b.Keys.Run(), "stopping").Val(), "")
}

// The script deletes at most a batch, whatever came since the keys were looked up.
func TestEraseCountsWhatItErases(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	b.SayMany("new", 700)
	fence := b.Redis.HGet(b.Ctx, b.Keys.Run(), "fence").Val()
	var results []string
	for range 3 {
		keys := protocol.KeysOf(actors.Key, b.Info().TranscriptID)
		got, err := protocol.Do(b.Ctx, b.Redis, "erase", keys, nil, "fence", fence, "size", 500, "unused", 0, "last", true, "keep", false).Slice()
		expect.OK(t, err)
		results = append(results, fmt.Sprint(got...))
		if got[0] == "gone" {
			break
		}
	}
	expect.Equal(t, "results", fmt.Sprint(results), "[batch500 gone]")
}
