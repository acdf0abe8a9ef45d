// Package httpd serves the worker's health, its metrics and asynqmon over HTTP.
//
//	/healthz   200 while the process works, 503 while it is stuck; for liveness probes
//	/readyz    200 while it takes messages; 503 while Redis is unreachable or stores
//	           nothing, while nobody reads the log, while it cannot do its work, or
//	           during a drain, with the drain's progress. With an API it stays 200
//	           while Redis stores nothing, and says so
//	/metrics   Prometheus' text format
//	/asynqmon  asynqmon, read-only unless writing is allowed
//
// All other paths belong to a gateway's API, which checks its requests itself. It refuses those of
// connections beyond the process's file descriptors, see package crowd.
//
// /healthz and /readyz need no secret, so that any probe can read them. They show a status, and
// errors only to callers on this machine.
//
// /asynqmon shows users' messages. On an address other than loopback it and /metrics need a token.
// Without a token both serve only requests that name this machine as their host. This keeps web pages
// from reaching them by DNS rebinding. Changes with another page's origin are always refused.
//
// Programs that an agent runs reach loopback, too. If there may be such programs, /asynqmon refuses
// every request without a token. /metrics stays open: it has numbers only, no names and no messages.
package httpd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hibiken/asynqmon"
	"golang.org/x/time/rate"

	"turnstile/internal/http/crowd"
	"turnstile/internal/program/config"
	"turnstile/internal/redis/redisconn"
)

// Errors of New and Start.
var (
	ErrNeedsToken = errors.New("an address that other machines reach needs a token")
	ErrStarted    = errors.New("the HTTP server was started or stopped before")
)

// dashboardRoot is where asynqmon is.
const dashboardRoot = "/asynqmon"

// Config has the settings of a Server.
type Config struct {
	// Addr is HOST:PORT. Port 0 takes a free one.
	Addr string

	// Setting is the variable that has Addr, for errors. Defaults to TURNSTILE_HTTP_ADDR.
	Setting string

	// Token protects /asynqmon and /metrics. It is given as a bearer token or as the password of
	// any user. Empty: none is needed, which only loopback allows.
	Token string

	// Programs reports that agents run programs on this machine, which can reach loopback:
	// without a token /asynqmon is closed.
	Programs bool

	// Write lets asynqmon change tasks and queues.
	Write bool

	// RedisURL is where asynqmon reads. Empty: asynqmon is not served.
	RedisURL string

	// API serves all paths that this package does not have. Optional.
	API http.Handler

	// Ping checks for /readyz that Redis can be reached, and stores what it is given.
	Ping func(context.Context) error

	// Draining reports whether the worker drains, and the drain's progress. Optional.
	Draining func() (Drain, bool)

	// Unable returns why the program cannot do its work now, "" if it can. Optional.
	Unable func() string

	// Healthy returns an error when the process is stuck and should be restarted. Optional.
	Healthy func() error

	// LogBlocked returns for how long the log has waited for its reader. After a minute /readyz is 503. Optional.
	LogBlocked func() time.Duration

	// Metrics serves /metrics. Optional.
	Metrics http.Handler

	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Server serves until it is stopped.
type Server struct {
	config    Config
	loopback  bool
	dashboard *asynqmon.HTTPHandler // nil: not served
	http      *http.Server

	mu      sync.Mutex
	addr    string
	started bool
	stopped bool
	served  chan struct{} // closed at the end of serving

	warnings *rate.Limiter // of wrong tokens
}

// New checks the configuration. The error wraps ErrNeedsToken or is about a malformed address or URL.
func New(c Config) (*Server, error) {
	loopback, err := config.Loopback(c.Addr)
	if err != nil {
		return nil, fmt.Errorf("HTTP address %q: %w", c.Addr, err)
	}
	if !loopback && c.Token == "" && (c.RedisURL != "" || c.Metrics != nil) {
		return nil, fmt.Errorf("HTTP address %q: %w: set TURNSTILE_HTTP_TOKEN, or listen on 127.0.0.1", c.Addr, ErrNeedsToken)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	s := &Server{config: c, loopback: loopback, served: make(chan struct{}), warnings: rate.NewLimiter(1, 10)}
	if c.RedisURL != "" {
		rdb, err := redisconn.Open(c.RedisURL) // only to check the URL: it does not connect
		if err != nil {
			return nil, err
		}
		_ = rdb.Close()
		s.dashboard = asynqmon.New(asynqmon.Options{
			RootPath:         dashboardRoot,
			RedisConnOpt:     connOpt(c.RedisURL),
			PayloadFormatter: asynqmon.PayloadFormatterFunc(show),
			ResultFormatter:  asynqmon.ResultFormatterFunc(show),
			ReadOnly:         !c.Write,
		})
	}
	s.http = &http.Server{
		Handler:           s.routes(),
		ConnContext:       crowd.Mark,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		// asynqmon reads one queue after the other: tens of thousands take seconds.
		WriteTimeout:   time.Minute,
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: 32 << 10,
		ErrorLog:       slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	if s.config.Metrics != nil {
		mux.Handle("GET /metrics", s.recovering(s.guarded(s.config.Metrics)))
	}
	if s.dashboard != nil {
		dashboard := s.recovering(s.guarded(s.closed(s.dashboard)))
		mux.Handle(dashboardRoot, dashboard)
		mux.Handle(dashboardRoot+"/", dashboard)
		mux.Handle("GET /{$}", http.RedirectHandler(dashboardRoot, http.StatusFound))
	}
	if s.config.API != nil {
		mux.Handle("/", s.config.API)
	}
	return mux
}

// Start listens and returns. ctx bounds only this call. A server can be started once.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started || s.stopped {
		return ErrStarted
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.config.Addr)
	if err != nil {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	s.started, s.addr = true, l.Addr().String()
	go func() {
		defer close(s.served)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.config.Logger.Error("the HTTP server ended", "error", err)
		}
	}()
	return nil
}

// Addr is the address that the server listens on, HOST:PORT; empty before Start.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Stop accepts no more requests and waits for those in progress. When ctx ends it closes their
// connections. It may be called twice, and before Start.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	s.stopped = true
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("stop HTTP: %w", err)
		_ = s.http.Close()
	}
	if s.started {
		<-s.served
	}
	if s.dashboard != nil {
		err = errors.Join(err, s.dashboard.Close())
	}
	return err
}
