package protocol_test

import (
	"fmt"
	"testing"

	"turnstile/test/actors"
	"turnstile/test/expect"
)

// What a dead sender's stop has put aside is found although the run record is gone, as
// a worker of an older version forgets it: that one does not know of the list.
func TestPutAsideWithoutARecord(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for i := range 600 {
		b.Enqueue(fmt.Sprint("m", i))
	}
	b.StopAndDie(actors.Script("stop"))
	b.Redis.Del(b.Ctx, b.Keys.Run(), b.Keys.Record())
	b.Sweep()
	expect.List(t, "runs", b.Work())
	b.StopEnded(600)
}
