package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestLeaseTrustEndsBeforeTheTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sent := time.Now()
		time.Sleep(2 * time.Second) // a slow reply
		l := New(t.Context(), sent, 10*time.Second)
		<-l.Context().Done()
		if got := time.Since(sent); got != 9*time.Second {
			t.Errorf("trust ended after %v, want 9s", got)
		}
		if cause := context.Cause(l.Context()); !errors.Is(cause, ErrLost) {
			t.Errorf("cause %v, want ErrLost", cause)
		}
		if err := l.Held(); !errors.Is(err, ErrLost) {
			t.Errorf("Held: %v, want ErrLost", err)
		}
	})
}

func TestLeaseOfAReplyThatCameTooLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sent := time.Now()
		time.Sleep(time.Minute)
		l := New(t.Context(), sent, 10*time.Second)
		if err := l.Held(); !errors.Is(err, ErrLost) {
			t.Errorf("Held: %v, want ErrLost", err)
		}
		if l.Context().Err() == nil {
			t.Error("context lives")
		}
	})
}

func TestLeaseExtend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := New(t.Context(), start, 10*time.Second)
		time.Sleep(5 * time.Second)
		l.Extend(time.Now(), 10*time.Second)
		l.Extend(time.Now(), time.Second) // never shortens
		if got := l.Deadline().Sub(start); got != 14*time.Second {
			t.Errorf("deadline after %v, want 14s", got)
		}
		<-l.Context().Done()
		if got := time.Since(start); got != 14*time.Second {
			t.Errorf("ended after %v, want 14s", got)
		}
		l.Extend(time.Now(), time.Hour)
		if err := l.Held(); !errors.Is(err, ErrLost) {
			t.Errorf("an extension revived it: %v", err)
		}
	})
}

func TestLeaseLose(t *testing.T) {
	t.Parallel()
	reason := errors.New("stolen")
	l := New(t.Context(), time.Now(), time.Hour)
	l.Lose(reason)
	l.Lose(nil)
	l.End()
	for _, err := range []error{context.Cause(l.Context()), l.Held()} {
		if !errors.Is(err, ErrLost) || !errors.Is(err, reason) {
			t.Errorf("%v, want ErrLost because of %v", err, reason)
		}
	}
}

func TestLeaseEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := New(t.Context(), time.Now(), time.Second)
		l.End()
		time.Sleep(time.Minute)
		l.Lose(nil)
		for _, err := range []error{context.Cause(l.Context()), l.Held()} {
			if !errors.Is(err, context.Canceled) || errors.Is(err, ErrLost) {
				t.Errorf("%v, want context.Canceled", err)
			}
		}
	})
}

func TestLeaseParentEnds(t *testing.T) {
	t.Parallel()
	parent, cancel := context.WithCancelCause(t.Context())
	l := New(parent, time.Now(), time.Hour)
	defer l.End()
	reason := errors.New("draining")
	cancel(reason)
	<-l.Context().Done()
	if cause := context.Cause(l.Context()); !errors.Is(cause, reason) {
		t.Errorf("cause %v, want %v", cause, reason)
	}
	if err := l.Held(); err != nil {
		t.Errorf("the lease ended with its parent: %v", err)
	}
}
