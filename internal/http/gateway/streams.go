package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"turnstile/internal/redis/redisconn"
)

// Causes of the end of a stream.
var (
	errGone     = errors.New("the client went away")
	errSlow     = errors.New("the client does not read")
	errRevoked  = errors.New("the token may no longer read the session")
	errNarrowed = errors.New("the token lost a permission")
)

// stream is an event stream that is open. It keeps nothing else of its request, because a gateway
// may have ten thousand idle streams.
type stream struct {
	gateway *Gateway
	token   Token
	session string     // "": all that the token sees
	id      string     // of the request
	route   string     // its pattern
	may     Permission // the permission that its token needs
	cancel  context.CancelCauseFunc
	closed  func() // for the token's limit
	conn    *taken // nil: the handler has not returned
}

// streams are those that are open. A token that was revoked loses its own, and a drain ends all.
type streams struct {
	mu       sync.Mutex
	open     map[*stream]struct{}
	draining bool
	running  sync.WaitGroup // one for each stream; none is added after draining is set
}

// openStream counts a stream, or fails if it may not be opened. ctx ends with its cause. Call close
// at its end.
func (g *Gateway) openStream(parent context.Context, r *Request) (ctx context.Context, s *stream, err error) {
	r.freeBody()
	r.made()
	if g.Draining() {
		return nil, nil, errStreamDraining()
	}
	if err := g.ping(r.Work()); err != nil {
		return nil, nil, err
	}
	if err := r.HoldStream(); err != nil {
		return nil, nil, err
	}
	closed := r.stream
	r.stream = nil
	ctx, cancel := context.WithCancelCause(parent)
	s = &stream{gateway: g, token: r.Token, session: r.Session, id: r.ID, route: r.route.Pattern, may: r.route.May, cancel: cancel, closed: closed}
	if err := g.streams.add(s); err != nil {
		cancel(err)
		closed()
		return nil, nil, err
	}
	if o := g.deps.Observer; o != nil {
		o.Streamed(1)
	}
	if err := g.lostBy(r); err != nil { // the tokens were reloaded after the request's check and before this stream was registered
		s.close()
		return nil, nil, Interrupted(err)
	}
	g.answered(r, http.StatusOK)
	return ctx, s, nil
}

func errStreamDraining() error {
	return Fail(Draining, "Open the stream again: another gateway takes it.")
}

// ping fails if Redis is unreachable, since a stream would wait for it. One that refuses writes has events to read.
func (g *Gateway) ping(ctx context.Context) error {
	if g.deps.Ping == nil {
		return nil
	}
	if err := g.deps.Ping(ctx); !redisconn.RefusesWrites(err) {
		return err
	}
	return nil
}

// close ends a stream.
func (s *stream) close() {
	g := s.gateway
	s.cancel(nil)
	g.streams.mu.Lock()
	delete(g.streams.open, s)
	g.streams.mu.Unlock()
	if o := g.deps.Observer; o != nil {
		o.Streamed(-1)
	}
	s.closed()
	g.streams.running.Done()
}

func (s *streams) add(one *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return errStreamDraining()
	}
	s.open[one] = struct{}{}
	s.running.Add(1)
	return nil
}

// each calls f for each open stream.
func (s *streams) each(f func(*stream)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.open {
		f(one)
	}
}

// detach serves a stream on a connection that was taken over, beyond the handler's return.
func (s *stream) detach(ctx context.Context, conn *taken, follow func(context.Context, *stream, sink)) {
	g := s.gateway
	g.streams.mu.Lock()
	s.conn = conn
	g.streams.mu.Unlock()
	go conn.drop(s.cancel)
	go func() {
		defer s.close()
		defer conn.Close()
		defer func() {
			if cause := recover(); cause != nil {
				g.panicked(s.route, s.id, cause)
			}
		}()
		follow(ctx, s, conn)
	}()
}

// Drain ends waits and streams, tells their clients to continue elsewhere, and refuses new ones.
// Other requests are served as before.
func (g *Gateway) Drain() {
	g.drain(errDraining)
	g.streams.mu.Lock()
	g.streams.draining = true
	g.streams.mu.Unlock()
	g.streams.each(func(s *stream) { s.cancel(errDraining) })
}

// Draining reports whether Drain was called.
func (g *Gateway) Draining() bool { return g.ending.Err() != nil }

// Stop drains, and returns when the streams have closed: the Shutdown of an http.Server does not
// know their connections. When ctx ends, Stop closes the rest.
func (g *Gateway) Stop(ctx context.Context) error {
	g.Drain()
	over := make(chan struct{})
	go func() {
		defer close(over)
		g.streams.running.Wait()
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
	}
	left := 0
	g.streams.each(func(s *stream) {
		left++
		if s.conn != nil {
			_ = s.conn.Close()
		}
	})
	return fmt.Errorf("close %d streams: %w", left, context.Cause(ctx))
}

// Reload reads the tokens again, and ends the streams and waits that are no longer allowed. After an error
// the tokens are the same as before.
func (g *Gateway) Reload() error {
	if g.config.Tokens == nil {
		return nil
	}
	if err := g.config.Tokens.Reload(); err != nil {
		return err
	}
	g.streams.each(func(s *stream) {
		if err := g.lost(s.token, s.may, s.session); err != nil {
			s.cancel(err)
		}
	})
	g.waits.check(g.lostBy)
	return nil
}
