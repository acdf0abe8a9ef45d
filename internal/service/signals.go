package service

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"turnstile/internal/engine"
)

// ErrRestart is how a run ends that is to be followed by another: after a SIGHUP.
var ErrRestart = errors.New("told to restart")

// ErrAbandoned is wrapped where the worker is left as it is, for the process to end: what
// it uses must not be taken from under it.
var ErrAbandoned = errors.New("ended at once")

// askedError is the cause with which a first signal ends what it ends.
type askedError struct{ reason engine.Reason }

func (s askedError) Error() string { return "told to end: " + s.reason.Name() }

// Ending is what signals ask of the process, one after the other.
type Ending struct {
	Asked context.Context // ends with the first: drain; the cause is askedError
	Cut   context.Context // ends with the second: wait no longer
	Now   context.Context // ends with the third: at once

	Ask func(engine.Reason) // does what a first signal does
}

// WatchSignals turns signals, and the end of ctx, into an Ending. hup is what
// SIGHUP means: a supervisor's service is to be started again; what somebody runs
// by hand has lost its terminal. The function that it answers gives the signals
// back to the system.
func WatchSignals(ctx context.Context, hup engine.Reason) (Ending, func()) {
	base := context.WithoutCancel(ctx)
	asked, end := context.WithCancelCause(base)
	ask := func(r engine.Reason) { end(askedError{r}) }
	cut, cutShort := context.WithCancel(base)
	now, atOnce := context.WithCancel(base)
	stop := context.AfterFunc(ctx, func() { ask(engine.ReasonShutdown) })

	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	// In `worker 2>&1 | tee log` Ctrl-C ends tee, too. Without this the next line
	// of the log would end the worker, in the middle of its drain.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				switch {
				case asked.Err() == nil && s == syscall.SIGHUP:
					ask(hup)
				case asked.Err() == nil:
					ask(engine.ReasonShutdown)
				case cut.Err() == nil:
					cutShort()
				default:
					atOnce()
				}
			}
		}
	}()
	return Ending{asked, cut, now, ask}, func() {
		signal.Stop(signals)
		signal.Stop(broken)
		close(done)
		stop()
		end(nil)
		cutShort()
		atOnce()
	}
}

// Reason is why the process was told to end: the first signal decides.
func (e Ending) Reason() engine.Reason {
	var s askedError
	if errors.As(context.Cause(e.Asked), &s) {
		return s.reason
	}
	return engine.ReasonShutdown
}

// Done is how a run ends that did as it was told: with nil or ErrRestart.
func (e Ending) Done() error {
	if e.Reason() == engine.ReasonRestart {
		return ErrRestart
	}
	return nil
}

// Unless is err, or Done where what failed was ended by a signal.
func (e Ending) Unless(err error) error {
	if e.Asked.Err() == nil {
		return err
	}
	return e.Done()
}
