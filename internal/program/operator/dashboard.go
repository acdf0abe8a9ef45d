package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"turnstile/internal/program/daemon"
	"turnstile/internal/program/httpd"
	"turnstile/internal/program/metrics"
	"turnstile/internal/program/service"
	"turnstile/pkg/admin"
)

const (
	dashboardAddr = "127.0.0.1:8080"
	healthTimeout = 4 * time.Second // below those of container health checks
)

// dashboard serves HTTP, without a worker, until ctx ends.
func (p *Program) dashboard(ctx context.Context, flags map[string]string) error {
	s, err := p.served(flags, map[string]string{"TURNSTILE_HTTP_ADDR": dashboardAddr})
	if err != nil {
		return err
	}
	s.Agent = cmp.Or(p.Agent, s.Agent)
	token := service.MakeToken(&s)
	log := daemon.NewLogger(p.ErrOut, s.LogLevel, s.LogFormat)
	daemon.LimitMemory(log)
	end, release := service.WatchSignals(ctx, service.Shutdown, nil)
	defer release()
	rdb, err := daemon.Connect(end.Requested, s.RedisURL, log)
	if err != nil {
		return end.Unless(err)
	}
	defer rdb.Close()
	m := metrics.New(admin.NewClient(rdb))
	m.Log(p.ErrOut.LeftOut)
	c := service.HTTPConfig(s, rdb, log, p.ErrOut)
	c.Metrics = m.Handler()
	server, err := daemon.StartHTTP(end.Requested, c, false)
	if err != nil {
		return end.Unless(err)
	}
	defer service.StopHTTP(end.Cut, server, nil, log)
	if token != "" {
		err = errors.Join(p.say("asynqmon: %s", AsynqmonURL(server, token)),
			p.say("No TURNSTILE_HTTP_TOKEN is set, so this address has a password for this run."))
		if err != nil {
			return fmt.Errorf("print the address of asynqmon: %w", err)
		}
	}
	<-end.Requested.Done()
	return nil
}

// health asks the server on TURNSTILE_HTTP_ADDR. If that is not set, it asks every server on a port
// that --dev may use, because --dev takes the next port if one is taken.
func (p *Program) health(ctx context.Context, flags map[string]string) error {
	s, err := p.served(flags, nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	if s.HTTPAddr != "" {
		return httpd.HealthCheck(ctx, s.HTTPAddr)
	}
	found, err := httpd.HealthCheckNearby(ctx, dashboardAddr, daemon.PortsTried)
	if err != nil {
		return err
	}
	return p.say("healthy: %s", strings.Join(found, ", "))
}

// AsynqmonURL is the address of asynqmon for a browser. A token in it logs the user in.
func AsynqmonURL(server *httpd.Server, token string) string {
	u := url.URL{Scheme: "http", Host: server.Addr(), Path: "/asynqmon"}
	if token != "" {
		u.User = url.UserPassword("turnstile", token)
	}
	return u.String()
}
