package lockguard

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

const (
	defaultTTL = 15 * time.Second
	minTTL     = 50 * time.Millisecond

	// renewals is how many renewals fit into one TTL.
	renewals = 3

	// recordLonger is how long the record of a lock, with its fencing token, outlives its last use,
	// in addition to the TTL.
	recordLonger = time.Hour
)

type settings struct {
	ttl     time.Duration
	owner   string
	maxWait time.Duration
	manual  bool
}

// Option changes a setting of a Guard.
type Option func(*settings)

// WithTTL sets how long a lock is held without a renewal, and so how long others wait after a
// holder died. It must be at least 50 ms. Defaults to 15 s.
func WithTTL(ttl time.Duration) Option {
	return func(s *settings) { s.ttl = ttl }
}

// WithOwner sets the name that others see as the owner of this guard's locks. Defaults to
// HOSTNAME:PID.
func WithOwner(owner string) Option {
	return func(s *settings) { s.owner = owner }
}

// WithMaxWait limits how long Acquire waits; then it returns an error that wraps [ErrHeld].
// Defaults to 0: Acquire waits until its context ends. Do not use a timeout of that context
// instead, because it would end the lock too.
func WithMaxWait(d time.Duration) Option {
	return func(s *settings) { s.maxWait = d }
}

// WithoutRenewal turns automatic renewal off: call [Lock.Renew]. By default a lock is renewed every
// third of its TTL.
func WithoutRenewal() Option {
	return func(s *settings) { s.manual = true }
}

func (s settings) check() error {
	var problems []error
	if s.ttl < minTTL {
		problems = append(problems, fmt.Errorf("TTL %v is under %v", s.ttl, minTTL))
	}
	if s.maxWait < 0 {
		problems = append(problems, fmt.Errorf("maximum wait %v is negative", s.maxWait))
	}
	return errors.Join(problems...)
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
