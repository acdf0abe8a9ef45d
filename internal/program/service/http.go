package service

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/program/config"
	"turnstile/internal/program/daemon"
	"turnstile/internal/program/httpd"
	"turnstile/internal/program/metrics"
	"turnstile/pkg/admin"
	"turnstile/pkg/worker"
)

// httpStop is how long requests in progress may take after everything else has stopped.
const httpStop = 3 * time.Second

// HTTPConfig returns the HTTP server's configuration. log writes to out.
func HTTPConfig(s config.Worker, rdb redis.UniversalClient, log *slog.Logger, out *daemon.Output) httpd.Config {
	return httpd.Config{
		Addr: s.HTTPAddr, Token: s.HTTPToken, Programs: s.AnyRunsPrograms(), Write: s.DashboardWrite,
		RedisURL: s.RedisURL,
		Ping:     admin.NewClient(rdb).Ping,
		Logger:   log, LogBlocked: out.Blocked,
	}
}

// expose serves a worker's metrics, readiness and health.
func expose(w *worker.Worker, end Ending, m *metrics.Metrics, c *httpd.Config) {
	m.Watch(w)
	c.Metrics, c.Draining, c.Healthy = m.Handler(), readiness(w, end), w.Health
	c.Unable = func() string { return strings.Join(slices.Sorted(maps.Values(w.Status().Unable)), "; ") }
}

// Closed reports whether asynqmon refuses every request, because the agent's programs could reach
// it and no token protects it.
func Closed(s config.Worker) bool {
	return s.HTTPAddr != "" && s.HTTPToken == "" && s.AnyRunsPrograms()
}

// MakeToken sets a random token where asynqmon would be closed without one, and returns it, or ""
// where none is needed. It is for commands that show the token to a person.
func MakeToken(s *config.Worker) string {
	if !Closed(*s) {
		return ""
	}
	s.HTTPToken = rand.Text()
	return s.HTTPToken
}

// StopHTTP lets requests in progress finish, for up to httpStop or until hurry ends. api may be nil.
func StopHTTP(hurry context.Context, server *httpd.Server, api API, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(hurry, httpStop)
	defer cancel()
	if api != nil {
		api.Drain()
	}
	err := server.Stop(ctx)
	if api != nil {
		err = errors.Join(err, api.Stop(ctx))
	}
	if err != nil {
		log.Debug("stopping HTTP", "error", err)
	}
}

// readiness returns the progress of a drain for /readyz.
func readiness(w *worker.Worker, end Ending) func() (httpd.Drain, bool) {
	return func() (httpd.Drain, bool) {
		s := w.Status()
		return httpd.Drain{Reason: string(end.Reason()), Running: s.Running, SecondsLeft: Seconds(s.Left)}, s.Draining
	}
}

// Seconds rounds up, so that 0 means that nothing is left.
func Seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
