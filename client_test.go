package turnstile_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile"
)

// A Follow copies each piece of a long reply a few times. It does not copy the whole reply with
// each piece.
func TestFollowCopiesLittle(t *testing.T) { //nolint:paralleltest // it counts what is allocated
	const pieces, size = 2000, 1000
	piece := strings.Repeat("x", size)
	events := make([]redis.XMessage, pieces)
	for i := range events {
		events[i] = redis.XMessage{ID: fmt.Sprintf("%d-0", i+1), Values: map[string]any{"e": `{"type":"text","turn":"t","text":"` + piece + `"}`}}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n := turnstile.Watched("t", events)
	runtime.ReadMemStats(&after)
	if n != pieces*size {
		t.Errorf("%d bytes of text, want %d", n, pieces*size)
	}
	if copied := (after.TotalAlloc - before.TotalAlloc) / (pieces * size); copied > 50 {
		t.Errorf("the reply was copied %d times", copied)
	}
}
