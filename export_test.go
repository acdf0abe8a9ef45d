package turnstile

import (
	"github.com/redis/go-redis/v9"

	"turnstile/pkg/session"
)

// Watched is how many bytes of text whoever follows a turn sees in entries of the
// stream.
func Watched(turn string, entries []redis.XMessage) (n int) {
	w := &watch{turns: map[string]bool{turn: true}, see: func(e session.Event) { n += len(e.Text) }}
	for _, m := range entries {
		w.hear(m)
	}
	return n
}
