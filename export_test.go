package turnstile

import (
	"github.com/redis/go-redis/v9"

	"turnstile/pkg/session"
)

// Watched returns how many bytes of text a Follow of the turn shows of these entries.
func Watched(turn string, entries []redis.XMessage) (n int) {
	w := &watch{turns: map[string]bool{turn: true}, show: func(e session.Event) { n += len(e.Text) }}
	for _, m := range entries {
		w.apply(m)
	}
	return n
}
