package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/lease"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// reportStart reports to the observer the messages that begin their first turn.
func (t *turnRun) reportStart() {
	if t.opts.Observer.MessageStarted == nil {
		return
	}
	for _, m := range t.Messages() {
		if m.First() && t.Carries != protocol.CarriesSteps { // a turn that waited for a decision has begun before
			t.opts.Observer.MessageStarted(m.Age)
		}
	}
}

// reportEnd reports the turn's end to the observer and the log. lost is why the end could not be
// written, or nil.
func (t *turnRun) reportEnd(lost error) (last outcome) {
	defer t.contain("reporting its end")
	end := TurnEnd{
		Session: t.Session, Turn: t.ID, Message: t.Message.ID, Attempt: t.Attempt, Status: t.end.status, Code: t.end.code, Ran: t.ran,
		Wait: t.Age, Duration: time.Since(t.Started), Err: t.end.why,
	}
	last = outcomeFinished
	level := slog.LevelInfo
	switch {
	case lost != nil:
		end.Status, end.Err, last = StatusLost, lost, outcomeLost
		level = slog.LevelError // the sentinel will expire
		if errors.Is(lost, lease.ErrLost) {
			end.Err, level = fmt.Errorf("%w: %w", agent.ErrLeaseLost, lost), slog.LevelWarn
			if t.quiet() {
				level = slog.LevelDebug
			}
		}
	case end.Status == StatusRequeued, end.Status == StatusParked:
		last = outcomeRequeued
	case end.Status == session.StatusFailed:
		level = slog.LevelWarn
	}
	if told := t.opts.Observer.TurnEnded; told != nil {
		told(end)
	}
	t.tracesEnd(end)
	if ctx := context.Background(); t.log.Enabled(ctx, level) {
		line := []slog.Attr{
			slog.String("status", string(end.Status)), slog.String("message", end.Message), slog.Int("attempt", end.Attempt),
			slog.Duration("duration", end.Duration.Round(time.Millisecond)), slog.Duration("wait", end.Wait.Round(time.Millisecond)),
		}
		if t.end.retryIn > 0 {
			line = append(line, slog.Duration("retry_in", t.end.retryIn.Round(time.Millisecond)))
		}
		if end.Err != nil {
			line = append(line, slog.Any("error", end.Err))
		}
		t.log.LogAttrs(ctx, level, "turn ended", line...)
	}
	return last
}
