package service

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"turnstile/internal/program/daemon"
	"turnstile/pkg/worker"
)

// ErrRestart is returned by a run that a SIGHUP ended: the supervisor should start another.
var ErrRestart = errors.New("restart requested")

// ErrAbandoned is wrapped by errors of a run that returned with its worker still running. The
// process must end then; nothing that the worker uses may be closed before.
var ErrAbandoned = errors.New("ended at once")

// Reason is why a process ends.
type Reason string

// The reasons.
const (
	Shutdown Reason = "shutdown"
	Restart  Reason = "restart"
)

// requestedError is the cause of Ending.Requested.
type requestedError struct{ reason Reason }

func (s requestedError) Error() string { return string(s.reason) + " requested" }

// Ending has the requests of the signals so far.
type Ending struct {
	Requested context.Context // ends with the first signal: drain; the cause is requestedError
	Cut       context.Context // ends with the second: interrupt the running turns
	Now       context.Context // ends with the third: exit at once

	Request func(Reason) // acts like a first signal
}

// WatchSignals turns signals, and the end of ctx, into an Ending. hup is the meaning of SIGHUP: a
// restart for a supervisor's service, a shutdown for a program after its terminal was closed. A
// restart for which ready returns false is not requested: the next process could not start. See
// daemon.Heeded. The returned function restores the default handling of the signals.
func WatchSignals(ctx context.Context, hup Reason, ready func() bool) (Ending, func()) {
	base := context.WithoutCancel(ctx)
	requested, end := context.WithCancelCause(base)
	request := func(r Reason) { end(requestedError{r}) }
	cut, cutShort := context.WithCancel(base)
	now, atOnce := context.WithCancel(base)
	stop := context.AfterFunc(ctx, func() { request(Shutdown) })

	signals := make(chan os.Signal, 4)
	signal.Notify(signals, daemon.Heeded(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)...)
	daemon.OutliveReaders()
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				switch {
				case requested.Err() == nil && s == syscall.SIGHUP && hup == Restart && !ready():
				case requested.Err() == nil && s == syscall.SIGHUP:
					request(hup)
				case requested.Err() == nil:
					request(Shutdown)
				case cut.Err() == nil:
					cutShort()
				default:
					atOnce()
				}
			}
		}
	}()
	return Ending{requested, cut, now, request}, func() {
		signal.Stop(signals)
		close(done)
		stop()
		end(nil)
		cutShort()
		atOnce()
	}
}

// Reason returns the first signal's reason.
func (e Ending) Reason() Reason {
	var s requestedError
	if errors.As(context.Cause(e.Requested), &s) {
		return s.reason
	}
	return Shutdown
}

// Drain stops the worker for the reason of the first signal. The second signal shortens the drain.
// drained is closed at its end.
func (e Ending) Drain(w *worker.Worker) (drained <-chan struct{}) {
	stop := w.Stop
	if e.Reason() == Restart {
		stop = w.StopToRestart
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = stop(e.Cut) // the log has the error's number
	}()
	return over
}

// Done is the result of a run that ended as requested: nil or ErrRestart.
func (e Ending) Done() error {
	if e.Reason() == Restart {
		return ErrRestart
	}
	return nil
}

// Unless returns err, or Done if a signal was the reason of the failure.
func (e Ending) Unless(err error) error {
	if e.Requested.Err() == nil {
		return err
	}
	return e.Done()
}
