package agent

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Wait is something that a turn waits for other than its user: a program's value, such as a payment's
// confirmation, or a time.
type Wait struct {
	// Key is the wait's name within its turn, the same in every run, as a question's, which it must differ from.
	// The program gives its value under this key.
	Key string

	// Timeout is how long the turn waits at most, counted from the first run that came to the wait, so it is the
	// same in every run. 0: for ever, unless it is a Timer. Negative: it is over.
	Timeout time.Duration

	// Timer: nobody gives a value. The turn waits for its Timeout, and that is no error.
	Timer bool

	// Begin sends what leads to the value, with the secret that the program needs to give it. It is called when the
	// value can be given, in every run until it has been, so it should do its work in a Step. It must not ask
	// or wait. If it fails, so does Wait. nil: nothing is to be sent.
	Begin func(ctx context.Context, secret string) error

	// Sent is for a Begin that returns before the secret is sent: close it then. Until that the turn is not parked.
	// nil: Begin has sent it when it returns.
	Sent <-chan struct{}
}

// ErrNoValue is the error of a Wait that nobody has given a value within its Timeout.
var ErrNoValue = errors.New("no value was given in time")

// Wait waits until a program gives the value (turnstile.Session.Give, or over HTTP), and returns it: JSON of up
// to 256 KiB. It is the same in every later run. As a question with a Key, a wait may fail with ErrParked: return
// that error. Only ErrNoValue says that none was given in time; after any other error nobody knows. A turn has one
// question or wait at a time; others begin after it, in the same order in each run.
//
// Without a host nobody can give a value.
func (t *Turn) Wait(ctx context.Context, w Wait) (json.RawMessage, error) {
	if t.Host.Wait != nil {
		return t.Host.Wait(ctx, w)
	}
	if w.Timer {
		select {
		case <-time.After(w.Timeout):
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return nil, ErrNoValue
}
