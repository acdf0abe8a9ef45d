package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

// complete gets a reply. It retries while no part of the reply has arrived, a retry may succeed,
// and the turn may still wait.
func (r *run) complete(ctx context.Context) (*completion, error) {
	for tries := 1; ; tries++ {
		a, err := r.stream(ctx)
		if err == nil {
			return a, r.judge(a)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		f := r.explain(err)
		switch {
		case f.images && r.blind():
			r.log.Debug("the server refuses the images of the history: they are sent as names", "error", f.why)
			tries--
			continue
		case !f.passing:
			return nil, f.why
		case a.text.Len() > 0:
			return nil, r.givenUp(fmt.Errorf("the model's server broke off in the middle of its reply (%w)", f.why))
		case tries > r.config.MaxRetries:
			return nil, r.givenUp(fmt.Errorf("%w after %s", f.why, times(tries)))
		}
		wait := f.after
		if wait <= 0 {
			wait = pauses.After(tries)
		}
		if r.waited+wait > r.config.MaxWait {
			return nil, r.givenUp(fmt.Errorf("%w; the next try would be in %s, which is too long to wait: try again later", f.why, wait.Round(time.Second)))
		}
		r.waited += wait
		r.log.Debug("the request to the model's server is retried", "error", f.why, "wait", wait.Round(time.Millisecond), "tries", tries)
		if wait > noticeable {
			r.turn.Emit(agent.Event{Type: session.EventNotice, Text: fmt.Sprintf("Waiting %s for the model's server, then trying again: %v.", wait.Round(time.Second), f.why)})
		}
		if err := r.sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// finishLength is the finish_reason of a reply that reached a limit.
const finishLength = "length"

// judge is the error, or nil, for how a reply ended.
func (r *run) judge(a *completion) error {
	a.normalizeCalls(r.ids)
	switch a.finish {
	case "content_filter":
		return errors.New("the content filter of the model's server stopped the reply: use other words, or start again with /new")
	case finishLength:
		if r.output { // else finish returns a clearer error
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

func times(n int) string {
	if n == 1 {
		return "one try"
	}
	return strconv.Itoa(n) + " tries"
}

// retryAfter is the wait that a server asks for: seconds, milliseconds in a header of OpenAI's own,
// or a date. 0: it asks for none.
func retryAfter(header http.Header, now time.Time) time.Duration {
	if d := number(header.Get("Retry-After-Ms"), time.Millisecond); d > 0 {
		return d
	}
	value := header.Get("Retry-After")
	if d := number(value, time.Second); d > 0 {
		return d
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// longest bounds a server's wait.
const longest = 1000 * time.Hour

func number(text string, unit time.Duration) time.Duration {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || !(n > 0) {
		return 0
	}
	return time.Duration(min(n*float64(unit), float64(longest)))
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
