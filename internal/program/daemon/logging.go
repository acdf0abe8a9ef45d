package daemon

import (
	"io"
	"log/slog"
	"math"
	"time"

	"turnstile/internal/process/guardian"
	"turnstile/internal/process/workspace"
	"turnstile/internal/program/config"
	"turnstile/internal/redis/redisconn"
	"turnstile/internal/text/printable"
)

// NewLogger makes a log with a level and a format. The Redis client library, the guardians' keeper
// and the workspaces' repairs log to it as well. Its output is safe to show on a terminal.
func NewLogger(w io.Writer, level slog.Level, format config.LogFormat) *slog.Logger {
	if o, ok := w.(*Output); ok {
		o.mu.Lock()
		o.format = format
		o.mu.Unlock()
	}
	log := slog.New(newHandler(w, level, format))
	redisconn.LogTo(log)
	guardian.LogTo(log)
	workspace.LogTo(log)
	return log
}

func newHandler(w io.Writer, level slog.Level, format config.LogFormat) slog.Handler {
	if format == config.LogJSON {
		return slog.NewJSONHandler(printable.NewJSONWriter(w), &slog.HandlerOptions{Level: level, ReplaceAttr: durationsInSeconds})
	}
	return slog.NewTextHandler(printable.NewWriter(w), &slog.HandlerOptions{Level: level})
}

// durationsInSeconds writes the durations of a JSON log as seconds with a fraction, where slog
// would write nanoseconds. They are rounded to milliseconds. A text log has them in Go's notation,
// 2.013s.
func durationsInSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		ms := math.Round(float64(a.Value.Duration()) / float64(time.Millisecond))
		a.Value = slog.Float64Value(ms / 1000)
	}
	return a
}
