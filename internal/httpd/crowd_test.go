package httpd

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"turnstile/test/expect"
)

// Connections beyond the limit are answered and closed, further ones wait until others end, and the server can
// stop meanwhile.
func TestCrowd(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	expect.OK(t, err)
	var log strings.Builder
	c := newCrowd(l, 16, slog.New(slog.NewTextHandler(&log, nil))) // 8 for clients, 2 more for refusals
	server := &http.Server{ConnContext: mark, ReadHeaderTimeout: time.Minute, Handler: brief(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if Crowded(r) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))}
	served := make(chan error, 1)
	go func() { served <- server.Serve(c) }()
	connect := func() net.Conn {
		t.Helper()
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
		expect.OK(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	ask := func(conn net.Conn) {
		t.Helper()
		_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		expect.OK(t, err)
	}
	answered := func(conn net.Conn, status int, kept bool) {
		t.Helper()
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		expect.OK(t, err)
		if response.StatusCode != status || response.Close == kept {
			t.Errorf("%s, closed: %v", response.Status, response.Close)
		}
	}
	var clients []net.Conn
	for range 8 {
		conn := connect()
		clients = append(clients, conn)
		ask(conn)
		answered(conn, http.StatusOK, true)
	}
	for range 4 { // one after the other, since each is closed
		conn := connect()
		ask(conn)
		answered(conn, http.StatusServiceUnavailable, false)
	}
	silent := []net.Conn{connect(), connect()}
	expect.Soon(t, "two that say nothing", func() bool { return len(c.slots) == cap(c.slots) })
	waits := connect()
	ask(waits)
	expect.OK(t, silent[0].Close())
	answered(waits, http.StatusServiceUnavailable, false)
	ask(clients[0])
	answered(clients[0], http.StatusOK, true)
	connect()
	expect.Soon(t, "two that say nothing", func() bool { return len(c.slots) == cap(c.slots) })
	ended, cancel := context.WithCancel(context.Background())
	cancel() // the silent ones do not end
	_ = server.Shutdown(ended)
	expect.OK(t, server.Close())
	expect.Equal(t, "end", expect.Received(t, "the end", served), http.ErrServerClosed)
	expect.Equal(t, "lines of the log", strings.Count(log.String(), "\n"), 1)
}
