package gateway

import (
	"context"
	"slices"
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

// check ends the waits of requests that have lost a permission.
func (w *waits) check(lost func(*Request) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for r, cancel := range w.open {
		if err := lost(r); err != nil {
			cancel(err)
		}
	}
}

// lostBy calls lost for a request.
func (g *Gateway) lostBy(r *Request) error { return g.lost(r.Token, r.route.May, r.Session) }

// lost returns why a wait or stream that began with the token was may not continue with the token now,
// nil if it may. It writes content that was allowed at its beginning, so it ends with a permission on which
// that depends. Without a session it may be about any session that the token saw.
func (g *Gateway) lost(was Token, may Permission, sessionKey string) error {
	if g.config.Tokens == nil {
		return nil
	}
	now, ok := g.config.Tokens.named(was.Name)
	switch {
	case !ok || now.sum != was.sum || may != "" && !now.May(may):
		return errRevoked
	case sessionKey != "" && !now.Sees(sessionKey), sessionKey == "" && !slices.Equal(now.sessions, was.sessions):
		return errRevoked
	case was.May(Read) && !now.May(Read), was.May(Operate) && !now.May(Operate): // see told and ended
		return errNarrowed
	}
	return nil
}
