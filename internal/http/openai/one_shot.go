package openai

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"turnstile/internal/http/gateway"
)

// temporaryHeader gives a request a temporary session, whatever session it names.
const temporaryHeader = "X-Turnstile-Temporary"

func wantsTemporary(r *gateway.Request) (bool, error) {
	switch value := r.Header.Get(temporaryHeader); value {
	case "", "false", "true":
		return value == "true", nil
	default:
		return false, refuse(temporaryHeader, "%s is true or false.", temporaryHeader)
	}
}

// oneShots says when temporary sessions are erased.
type oneShots struct {
	// life is how long a session is kept after its end. It is longer than the time for which a
	// repeated request finds its message.
	life time.Duration

	// pause is how long a gateway waits between two looks, on average.
	pause time.Duration
}

var defaultOneShots = oneShots{life: retried + 30*time.Second, pause: 10 * time.Second}

// eraseOneShots erases temporary sessions until ctx ends, whichever gateway made them.
func (a *API) eraseOneShots(ctx context.Context, log *slog.Logger) {
	for more := false; ; {
		pause := time.Duration(float64(a.oneShots.pause) * (0.5 + rand.Float64())) //nolint:gosec // gateways are not to look at once
		if more {
			pause = 0
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		var err error
		_, more, err = a.kept.EraseTemporary(ctx, a.oneShots.life)
		if err != nil && ctx.Err() == nil {
			more = false
			log.Warn("temporary sessions were not erased; trying again", "error", err)
		}
	}
}
