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
		handler = slog.NewJSONHandler(printable.NewJSONWriter(w), o)
	}
	log := slog.New(handler)
	redisconn.LogTo(log)
	guardian.LogTo(log)
	return log
}
