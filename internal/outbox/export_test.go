package outbox

import "net/http"

// WrapTransport lets a test stand between a deliverer and its receivers.
func (d *Deliverer) WrapTransport(wrap func(http.RoundTripper) http.RoundTripper) {
	for _, c := range []*http.Client{d.poster.public, d.poster.private} {
		c.Transport = wrap(c.Transport)
	}
}

// Notice has a deliverer look at a session, as a sender's signal does.
func (d *Deliverer) Notice(session string) { d.noticed.add(session) }
