package protocol_test

import (
	"fmt"
	"testing"

	"turnstile/internal/rediskey"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A worker finds what a dead sender's stop has left, though nobody sends any more.
func TestStoppedMessagesAreFound(t *testing.T) {
	t.Parallel()
	const n = 1100
	for by, look := range map[string]func(b *actors.Bench){
		"reap":  func(b *actors.Bench) { b.StopAndDie(redistest.Named("zadd")); b.Overdue(rediskey.Owned); b.Reap() },
		"sweep": func(b *actors.Bench) { b.StopAndDie(actors.Script("stop")); b.Sweep() },
	} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			for i := range n {
				b.Enqueue(fmt.Sprint("m", i))
			}
			look(b)
			expect.List(t, "runs", b.Work())
			b.StopEnded(n)
		})
	}
}
