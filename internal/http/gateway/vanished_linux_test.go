package gateway_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/sys/unix"

	"turnstile/test/expect"
)

// The connection of a vanished client's stream ends after 30 s, also with TLS.
func TestVanishedClientsAreBounded(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*httptest.Server){"plain": (*httptest.Server).Start, "TLS": (*httptest.Server).StartTLS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			server := httptest.NewUnstartedServer(r.gateway)
			taken := make(chan net.Conn, 1)
			server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
				if state == http.StateHijacked {
					taken <- conn
				}
			}
			start(server)
			t.Cleanup(server.Close)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/sessions/s/events", http.NoBody)
			expect.OK(t, err)
			response, err := server.Client().Do(request)
			expect.OK(t, err)
			defer response.Body.Close()
			conn := expect.Received(t, "the connection", taken)
			if secure, ok := conn.(*tls.Conn); ok {
				conn = secure.NetConn()
			}
			raw, err := conn.(*net.TCPConn).SyscallConn()
			expect.OK(t, err)
			var ms int
			expect.OK(t, raw.Control(func(fd uintptr) { ms, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) }))
			expect.OK(t, err)
			expect.Equal(t, "timeout", ms, 30_000)
		})
	}
}
