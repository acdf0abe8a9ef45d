package service

import (
	"io"
	"log/slog"

	"turnstile/internal/config"
	"turnstile/internal/printable"
	"turnstile/internal/process/guardian"
	"turnstile/internal/redisconn"
)

// NewLogger makes the log that the settings ask for. It also takes over what the Redis client library and the guardians' keeper
// have to say. Whatever is logged, a terminal can show it.
func NewLogger(w io.Writer, s config.Worker) *slog.Logger {
	o := &slog.HandlerOptions{Level: s.LogLevel}
	var handler slog.Handler = slog.NewTextHandler(printable.NewWriter(w), o)
	if s.LogFormat == config.LogJSON {
		o.ReplaceAttr = durationsInSeconds
		handler = slog.NewJSONHandler(printable.NewJSONWriter(w), o)
	}
	log := slog.New(handler)
	redisconn.LogTo(log)
	guardian.LogTo(log)
	return log
}

// durationsInSeconds makes numbers of a JSON log's durations: of seconds, with a
// fraction. slog's own are nanoseconds. A text log has them as Go writes them, 2.013s.
func durationsInSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.Float64Value(a.Value.Duration().Seconds())
	}
	return a
}
