package script

import (
	"context"
	"fmt"
	"time"

	"turnstile/internal/backoff"
	"turnstile/internal/redis/redisconn"
)

// Repeat repeats call, with a growing pause, while its error may pass and until ctx ends. Then
// the error wraps the cause of ctx's end and call's last error.
func Repeat(ctx context.Context, call func() error) error {
	pauses := backoff.Backoff{First: 10 * time.Millisecond, Longest: 500 * time.Millisecond}
	for failures := 1; ; failures++ {
		err := call()
		if err == nil || !redisconn.MayPass(err) {
			return err
		}
		pauses.Wait(ctx.Done(), failures)
		if ctx.Err() != nil {
			return fmt.Errorf("%w (last error: %w)", context.Cause(ctx), err)
		}
	}
}
