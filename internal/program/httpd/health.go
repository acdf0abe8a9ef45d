package httpd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"turnstile/internal/redis/redisconn"
)

// The statuses of /healthz and /readyz.
const (
	statusOK       = "ok"
	statusStuck    = "stuck"
	statusDraining = "draining"
	statusNoRedis  = "redis unreachable"
	statusRefuses  = "redis refuses writes"
	statusLogStuck = "log stuck"
	statusUnable   = "unable"
)

// serverName identifies Turnstile's responses, because other programs have a /healthz, too.
const serverName = "turnstile"

const (
	pingTimeout = 2 * time.Second // bounds how long /readyz waits for Redis
	logPatience = time.Minute     // how long the log's reader may take for a line
)

type status struct {
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
	*Drain
}

// Drain is the progress of a worker's drain, as /readyz shows it.
type Drain struct {
	Reason      string `json:"reason"`
	Running     int    `json:"running"`      // turns
	SecondsLeft int    `json:"seconds_left"` // until the turns are interrupted; 0: they are being interrupted
}

// String is the status in words.
func (s status) String() string {
	text := strings.TrimSuffix(s.Status+": "+s.Error, ": ")
	if s.Drain != nil {
		text += fmt.Sprintf(" (%s): %d running, %ds left", s.Reason, s.Running, s.SecondsLeft)
	}
	return text
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	if s.config.Healthy != nil {
		if err := s.config.Healthy(); err != nil {
			s.respond(w, status{Status: statusStuck, Error: err.Error()})
			return
		}
	}
	s.respond(w, status{Status: statusOK})
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	if s.config.Draining != nil {
		if drain, is := s.config.Draining(); is {
			s.respond(w, status{Status: statusDraining, Drain: &drain})
			return
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), pingTimeout)
	defer cancel()
	if err := s.config.Ping(ctx); err != nil {
		is := status{Status: statusNoRedis, Error: redisconn.Explain(err)}
		if redisconn.RefusesWrites(err) {
			is = status{Status: statusRefuses, Error: "neither messages nor heartbeats are stored: " + is.Error}
		}
		s.respond(w, is)
		return
	}
	// Not in /healthz: a restarted process would have the same reader, and its turns run twice.
	if blocked := s.config.LogBlocked; blocked != nil && blocked() >= logPatience {
		s.respond(w, status{Status: statusLogStuck, Error: "nobody reads the log: look at the log driver, or at the program that stderr is piped to"})
		return
	}
	if s.config.Unable != nil {
		if why := s.config.Unable(); why != "" {
			s.respond(w, status{Status: statusUnable, Error: why})
			return
		}
	}
	s.respond(w, status{Status: statusOK})
}

// respond includes the error only on loopback, because it names hosts and ports.
func (s *Server) respond(w http.ResponseWriter, is status) {
	w.Header().Set("Server", serverName)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	// With an API the server still shows the board, and ends the replies of running turns.
	if serves := is.Status == statusRefuses && s.config.API != nil; is.Status != statusOK && !serves {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	if !s.loopback {
		is.Error = ""
	}
	body, err := json.Marshal(is)
	if err != nil {
		return // texts and numbers can always be encoded
	}
	_, _ = w.Write(append(body, '\n')) // after a failure there is no caller
}

// ErrUnhealthy says that HealthCheck reached a worker, and that it is unhealthy.
var ErrUnhealthy = errors.New("unhealthy")

// HealthCheck checks the worker that serves on addr, which has the form of Config.Addr. It is for
// container health checks: a worker that drains, or waits for Redis, is healthy.
func HealthCheck(ctx context.Context, addr string) error { return check(ctx, addr, "/healthz") }

func check(ctx context.Context, addr, path string) error {
	addr, err := reachable(addr)
	if err != nil {
		return err
	}
	_, err = probe(ctx, addr, path)
	return err
}

// probe checks the server on addr. ours reports whether it is a Turnstile worker of this version or a
// later one.
func probe(ctx context.Context, addr, path string) (ours bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return false, fmt.Errorf("health check: %w", err)
	}
	// Ignore the environment's proxy: the worker is on this machine.
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return false, fmt.Errorf("health check: no worker responds on %s: %w", addr, err)
	}
	defer response.Body.Close()
	ours = response.Header.Get("Server") == serverName
	body, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if err != nil {
		return ours, fmt.Errorf("health check: %w", err)
	}
	var is status
	if json.Unmarshal(body, &is) != nil || is.Status == "" {
		return ours, fmt.Errorf("health check: the server on %s is not a worker (%s)", addr, response.Status)
	}
	if response.StatusCode != http.StatusOK {
		return ours, fmt.Errorf("%w: %s", ErrUnhealthy, is)
	}
	return ours, nil
}

// reachable returns the address to connect to for an address to listen on: loopback for "all
// addresses".
func reachable(addr string) (string, error) {
	if addr == "" {
		return "", errors.New("health check: TURNSTILE_HTTP_ADDR is empty, so the worker serves no health; set it to 127.0.0.1:8080")
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("health check: TURNSTILE_HTTP_ADDR %q is not HOST:PORT", addr)
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "", err == nil && ip.Is4() && ip.IsUnspecified():
		host = "127.0.0.1"
	case err == nil && ip.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port), nil
}
