package gateway

import (
	"context"
	"sync"
)

// waits are the requests that wait for an outcome. A token that was revoked loses its own.
type waits struct {
	mu   sync.Mutex
	open map[*Request]context.CancelCauseFunc
}

func (w *waits) add(r *Request, cancel context.CancelCauseFunc) (forget func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[r] = cancel
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.open, r)
	}
}

// revoke ends the waits of requests that are no longer permitted.
func (w *waits) revoke(permits func(*Request) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for r, cancel := range w.open {
		if !permits(r) {
			cancel(errRevoked)
		}
	}
}

// permits reports whether a request's token may still make it, as the tokens are now.
func (g *Gateway) permits(r *Request) bool {
	if g.config.Tokens == nil {
		return true
	}
	now, ok := g.config.Tokens.named(r.Token.Name)
	return ok && now.sum == r.Token.sum && (r.route.May == "" || now.May(r.route.May)) && (r.Session == "" || now.Sees(r.Session))
}
