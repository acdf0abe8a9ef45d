package main

import (
	"io"
	"log/slog"

	"turnstile/internal/config"
	"turnstile/internal/redisconn"
)

// newLogger also takes over what the Redis client library has to say.
func newLogger(w io.Writer, s config.Worker) *slog.Logger {
	o := &slog.HandlerOptions{Level: s.LogLevel}
	var handler slog.Handler = slog.NewTextHandler(w, o)
	if s.LogFormat == config.LogJSON {
		handler = slog.NewJSONHandler(w, o)
	}
	log := slog.New(handler)
	redisconn.LogTo(log)
	return log
}
