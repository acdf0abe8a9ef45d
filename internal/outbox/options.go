package outbox

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"time"
)

// Options are the settings of a Deliverer. A zero value means the field's default.
type Options struct {
	// Destinations returns the destinations to deliver to. It is called for every delivery, so
	// that a file may be read again. Required.
	Destinations func() *Destinations

	// Concurrency is how many sessions are delivered at once. One destination gets at most half of
	// them, so that a slow one leaves room. Defaults to 64.
	Concurrency int

	// Timeout is how long one POST may take. The lease of a line is three times as long. Defaults
	// to 15 s.
	Timeout time.Duration

	// Poll is how often Redis is asked for due sessions: those with retries or lost notices. Defaults to
	// 500 ms.
	Poll time.Duration

	// RetryBackoff is the wait after the first failure of a record. It doubles with each further
	// one, up to LongestBackoff, plus or minus a quarter. They default to 1 s and 15 min.
	RetryBackoff   time.Duration
	LongestBackoff time.Duration

	// BreakerPause is the pause of a destination that fails for several sessions. It doubles with each
	// failed probe, up to 24 times as long. Defaults to 5 s.
	BreakerPause time.Duration

	// Dial connects to a receiver. Defaults to TCP, with a check of each address. A test may set it.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Observer receives events for metrics. It may be nil.
	Observer Observer

	// Trace begins to trace an attempt, and returns its traceparent. answered is called at the attempt's end; status 0:
	// there was no answer. It may be nil.
	Trace TraceFunc

	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// TraceFunc traces one attempt to deliver a record.
type TraceFunc = func(ctx context.Context, session, destination, id string, sequence int64, attempt int, body []byte) (traceparent string, answered func(status int))

// longestPauses is the longest pause between two probes, in BreakerPauses.
const longestPauses = 24

// leaseTimeouts is the length of a lease in timeouts of one POST. Several records are delivered
// under one lease.
const leaseTimeouts = 3

func (o Options) withDefaults() Options {
	o.Concurrency = cmp.Or(o.Concurrency, 64)
	o.Timeout = cmp.Or(o.Timeout, 15*time.Second)
	o.Poll = cmp.Or(o.Poll, 500*time.Millisecond)
	o.RetryBackoff = cmp.Or(o.RetryBackoff, time.Second)
	o.LongestBackoff = cmp.Or(o.LongestBackoff, 15*time.Minute)
	o.BreakerPause = cmp.Or(o.BreakerPause, 5*time.Second)
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Logger = o.Logger.With("component", "deliveries")
	return o
}

func (o Options) validate() error {
	var errs []error
	if o.Destinations == nil {
		errs = append(errs, errors.New("deliverer: Options.Destinations is missing"))
	}
	if o.Concurrency < 0 || o.Timeout < 0 || o.Poll < 0 || o.RetryBackoff < 0 || o.LongestBackoff < 0 || o.BreakerPause < 0 {
		errs = append(errs, errors.New("deliverer: a number of Options is negative"))
	}
	if o.RetryBackoff > o.LongestBackoff {
		errs = append(errs, errors.New("deliverer: Options.RetryBackoff is above Options.LongestBackoff"))
	}
	return errors.Join(errs...)
}
