package httpd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"turnstile/test/redistest"
)

// neighbours returns free ports next to each other, and a function that frees one.
func neighbours(t *testing.T, n int) (addrs []string, free func(i int)) {
	t.Helper()
	for range 100 {
		var listeners []net.Listener
		first, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners, addrs = append(listeners, first), []string{first.Addr().String()}
		for port := first.Addr().(*net.TCPAddr).Port + 1; len(listeners) < n; port++ {
			next, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				break
			}
			listeners, addrs = append(listeners, next), append(addrs, next.Addr().String())
		}
		if len(listeners) == n {
			t.Cleanup(func() {
				for _, l := range listeners {
					_ = l.Close()
				}
			})
			return addrs, func(i int) { _ = listeners[i].Close() }
		}
		for _, l := range listeners {
			_ = l.Close()
		}
	}
	t.Fatal("no ports next to each other are free")
	return nil, nil
}

// There are two workers, between them another program with the same kind of health page, and a
// port that accepts connections and does not respond.
func TestHealthCheckNearby(t *testing.T) {
	t.Parallel()
	addrs, free := neighbours(t, 4)
	if found, err := HealthCheckNearby(t.Context(), addrs[0], 1); found != nil || err == nil || !strings.Contains(err.Error(), "no worker responds on "+addrs[0]) {
		t.Errorf("%q, %v", found, err)
	}
	for _, i := range []int{0, 1, 3} {
		free(i)
	}
	foreign := &http.Server{Addr: addrs[1], Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"status":"DOWN"}`))
	})}
	l, err := net.Listen("tcp", addrs[1])
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = foreign.Serve(l) }()
	defer foreign.Close()
	c := valid(t, redistest.URL(t))
	c.Addr = addrs[0]
	start(t, c)
	c.Addr = addrs[3]
	var sick error
	c.Healthy = func() error { return sick }
	start(t, c)
	found, err := HealthCheckNearby(t.Context(), addrs[0], 4)
	if want := []string{addrs[0], addrs[3]}; err != nil || !slices.Equal(found, want) {
		t.Errorf("%q, %v", found, err)
	}
	sick = errors.New("it is stuck")
	found, err = HealthCheckNearby(t.Context(), addrs[0], 4)
	if want := addrs[3] + ": unhealthy: stuck: it is stuck"; len(found) != 2 || !errors.Is(err, ErrUnhealthy) || err.Error() != want {
		t.Errorf("%q, %v; want %s", found, err, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := HealthCheckNearby(ctx, addrs[0], 4); found != nil || err == nil {
		t.Errorf("%q, %v", found, err)
	}
	for _, bad := range []string{"", "here", "127.0.0.1:http"} {
		if _, err := HealthCheckNearby(t.Context(), bad, 4); err == nil {
			t.Errorf("%q is an address", bad)
		}
	}
}
