package outbox

import (
	"io"
	"net/http"
	"testing"
)

// WrapTransport lets a test stand between a deliverer and its receivers.
func (d *Deliverer) WrapTransport(wrap func(http.RoundTripper) http.RoundTripper) {
	for _, c := range []*http.Client{d.poster.public, d.poster.private} {
		c.Transport = wrap(c.Transport)
	}
}

// Notice has a deliverer look at a session, as a sender's signal does.
func (d *Deliverer) Notice(session string) { d.noticed.add(session) }

// SwitchProtocols is a receiver that answers 101 and holds the connection until the test ends.
func SwitchProtocols(t *testing.T) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { conn.Close() })
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	}
}
