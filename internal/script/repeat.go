package script

import (
	"context"
	"fmt"
	"time"

	"turnstile/internal/redisconn"
)

// Repeat repeats call, with a growing pause, while its error may pass and until ctx ends. Then
// the error wraps the cause of ctx's end and call's last error.
func Repeat(ctx context.Context, call func() error) error {
	pause := 10 * time.Millisecond
	for {
		err := call()
		if err == nil || !redisconn.MayPass(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last error: %w)", context.Cause(ctx), err)
		case <-time.After(pause):
		}
		pause = min(2*pause, 500*time.Millisecond)
	}
}
