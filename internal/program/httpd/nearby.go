package httpd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

const (
	// nearbyAtOnce is how many ports are checked at the same time.
	nearbyAtOnce = 20

	// nearbyTimeout is how long one port may take; another program may listen there.
	nearbyTimeout = time.Second
)

// HealthCheckNearby checks all workers that serve on addr or on one of the next ports, which a worker
// uses if its port is taken. It returns the addresses of those that responded. It returns an error if
// none did, or one is unhealthy. Responses of other programs do not count.
func HealthCheckNearby(ctx context.Context, addr string, ports int) (found []string, err error) {
	host, first, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("health check: address %q is not HOST:PORT", addr)
	}
	port, err := strconv.Atoi(first)
	if err != nil {
		return nil, fmt.Errorf("health check: address %q is not HOST:PORT", addr)
	}
	type result struct {
		ours bool
		err  error
	}
	results := make([]result, ports)
	slots := make(chan struct{}, nearbyAtOnce)
	var probes sync.WaitGroup
	at := func(i int) string { return net.JoinHostPort(host, strconv.Itoa(port+i)) }
	for i := range results {
		slots <- struct{}{}
		probes.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, nearbyTimeout)
			defer cancel()
			results[i].ours, results[i].err = probe(ctx, at(i), "/healthz")
		})
	}
	probes.Wait()
	var sick []error
	for i, r := range results {
		if !r.ours {
			continue
		}
		found = append(found, at(i))
		if r.err != nil {
			sick = append(sick, fmt.Errorf("%s: %w", at(i), r.err))
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("health check: no worker responds on %s or the %d ports after it, where worker --dev serves; for another one set TURNSTILE_HTTP_ADDR", addr, ports-1)
	}
	return found, errors.Join(sick...)
}
