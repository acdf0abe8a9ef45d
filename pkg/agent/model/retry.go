package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"turnstile/internal/backoff"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// pauses are those before a retry, if the server does not set one.
var pauses = backoff.Backoff{First: 500 * time.Millisecond, Longest: 8 * time.Second, Spread: true}

// noticeable is how long a wait must be for a notice to the user.
const noticeable = 5 * time.Second

// betweenRefusals is the shortest wait of a turn that a busy server has refused twice, as the worker has it for later ones.
const betweenRefusals = time.Minute

// complete gets a reply. It retries while no part of the reply has arrived and a retry may succeed. The turn is left for
// a longer wait, and when a busy server refuses it a second time.
func (r *run) complete(ctx context.Context) (*completion, error) {
	loads := 0
	for tries := 1; ; tries++ {
		a, err := r.stream(ctx)
		if err == nil {
			return a, r.judge(a)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		f := r.explain(err)
		var refused *statusError
		switch {
		case a.text.Len() == 0 && errors.As(err, &refused) && r.mend(refused):
			tries--
			continue
		case !f.passing:
			return nil, f.why
		case a.text.Len() > 0:
			return nil, r.givenUp(fmt.Errorf("the model's server broke off in the middle of its reply (%w)", f.why))
		case f.after > r.config.MaxWait, f.busy && (tries > r.config.MaxRetries || r.waited || r.turn.Throttled > 0):
			return nil, r.throttled(f)
		case tries > r.config.MaxRetries:
			return nil, r.givenUp(fmt.Errorf("%w after %s", f.why, times(tries)))
		}
		wait := f.after
		if wait <= 0 {
			wait = pauses.After(tries)
		}
		if loads++; f.loading && loads <= mostLoads {
			tries--
		}
		r.log.Debug("the request to the model's server is retried", "error", f.why, "wait", wait.Round(time.Millisecond), "tries", tries)
		r.waited = r.waited || f.busy
		if wait > noticeable && !f.busy { // throttled emits the only notice for a busy server
			r.turn.Emit(agent.Event{Type: session.EventNotice, Text: fmt.Sprintf("Waiting %s for the model's server, then trying again: %v.", wait.Round(time.Second), f.why)})
		}
		if err := r.sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// What judge knows of how a reply ended; the rest ended well.
const (
	finishLength = "length" // it reached a limit
	finishFilter = "content_filter"
)

// judge is the error, or nil, for how a reply ended.
func (r *run) judge(a *completion) error {
	a.normalizeCalls(r.ids)
	defer r.keep(a)
	switch a.finish {
	case finishFilter:
		return errors.New("the content filter of the model's server stopped the reply: use other words, or start again with /new")
	case finishLength:
		// Nobody can tell the client that a call of its function may not be whole.
		a.calls = slices.DeleteFunc(a.calls, func(c toolCall) bool { return r.functions[c.name] || c.name == "" })
		if a.text.Len() > 0 { // else finish returns a clearer error
			r.turn.Emit(agent.Event{Type: session.EventNotice, Text: "The model's reply was truncated: it reached the limit of its length."})
		}
	}
	return nil
}

// givenUp is the error of a turn after its last retry. It is retryable if the turn's next run goes on after
// its last step, or if the turn has produced nothing.
func (r *run) givenUp(err error) error {
	if r.output && r.turn.Host.StartStep == nil {
		return err
	}
	return agent.Retryable(err)
}

// throttled is the error of a turn that the server wants to wait for longer than a turn may wait while it runs. The user
// learns it once.
func (r *run) throttled(f failure) error {
	if r.output && r.turn.Host.StartStep == nil {
		return f.why // the next run would begin again
	}
	if r.waited && f.after > 0 {
		f.after = max(f.after, betweenRefusals)
	}
	if r.turn.Throttled == 0 {
		text := "The model's server has no room now: this turn goes on when it has."
		if f.after > 0 {
			text = fmt.Sprintf("The model's server has no room now: this turn goes on in %s.", f.after.Round(time.Second))
		}
		r.turn.Emit(agent.Event{Type: session.EventNotice, Text: text})
	}
	return agent.Throttled(f.why, f.after)
}

func times(n int) string {
	if n == 1 {
		return "one try"
	}
	return strconv.Itoa(n) + " tries"
}

// sleep waits, or returns when ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
