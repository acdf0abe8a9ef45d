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
	// nearbyAtOnce is how many ports are asked at the same time.
	nearbyAtOnce = 20

	// nearbyTimeout is how long one of them may take, which may be another program's.
	nearbyTimeout = time.Second
)

// HealthCheckNearby asks all workers that serve on addr or on one of the ports after it,
// where a worker serves that found its port taken. It returns the addresses of those that
// answer, and an error if none does or one of them is not well. What other programs answer
// there does not count.
func HealthCheckNearby(ctx context.Context, addr string, ports int) (found []string, err error) {
	host, first, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("health check: address %q is not HOST:PORT", addr)
	}
	port, err := strconv.Atoi(first)
	if err != nil {
		return nil, fmt.Errorf("health check: address %q is not HOST:PORT", addr)
	}
	type answer struct {
		ours bool
		err  error
	}
	answers := make([]answer, ports)
	slots := make(chan struct{}, nearbyAtOnce)
	var asked sync.WaitGroup
	at := func(i int) string { return net.JoinHostPort(host, strconv.Itoa(port+i)) }
	for i := range answers {
		slots <- struct{}{}
		asked.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, nearbyTimeout)
			defer cancel()
			answers[i].ours, answers[i].err = probe(ctx, at(i), "/healthz")
		})
	}
	asked.Wait()
	var sick []error
	for i, a := range answers {
		if !a.ours {
			continue
		}
		found = append(found, at(i))
		if a.err != nil {
			sick = append(sick, fmt.Errorf("%s: %w", at(i), a.err))
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("health check: no worker answers on %s or the %d ports after it, where worker --dev serves; for another one set TURNSTILE_HTTP_ADDR", addr, ports-1)
	}
	return found, errors.Join(sick...)
}
