package httpd

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// reserve is how many of the process's file descriptors connections of clients must leave, if that is not more
// than half: for Redis, agents' programs and files. A quarter of them is for connections beyond the limit, whose
// requests get a response that says so. Further connections wait in the system's queue.
const reserve = 256

// descriptorsMost is assumed of a system that tells no limit, or a higher one.
const descriptorsMost = 1 << 20

// crowd is a listener that bounds how many connections are open.
type crowd struct {
	net.Listener
	most   int
	slots  chan struct{} // one for each connection
	log    *slog.Logger
	seldom rate.Sometimes

	once   sync.Once
	closed chan struct{}
}

func newCrowd(l net.Listener, descriptors int, log *slog.Logger) *crowd {
	kept := min(reserve, descriptors/2)
	return &crowd{
		Listener: l, most: descriptors - kept, slots: make(chan struct{}, descriptors-kept+kept/4), log: log,
		seldom: rate.Sometimes{Interval: time.Minute}, closed: make(chan struct{}),
	}
}

func (c *crowd) Accept() (net.Conn, error) {
	select {
	case c.slots <- struct{}{}:
	case <-c.closed:
		return nil, net.ErrClosed
	}
	conn, err := c.Listener.Accept()
	if err != nil {
		<-c.slots
		return nil, err
	}
	m := &member{Conn: conn, leave: sync.OnceFunc(func() { <-c.slots }), over: len(c.slots) > c.most}
	if m.over {
		c.seldom.Do(func() {
			c.log.Warn("too many HTTP connections: new ones get 503 overloaded; raise the limit of file descriptors (ulimit -n, LimitNOFILE=)", "most", c.most)
		})
	}
	return m, nil
}

func (c *crowd) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Listener.Close()
}

// member is a connection of a crowd.
type member struct {
	net.Conn
	leave func()
	over  bool // it is one beyond the limit
}

func (m *member) Close() error {
	defer m.leave()
	return m.Conn.Close()
}

// NetConn is the connection itself, for its options.
func (m *member) NetConn() net.Conn { return m.Conn }

type crowdedKey struct{}

// mark is for http.Server.ConnContext.
func mark(ctx context.Context, conn net.Conn) context.Context {
	if m, ok := conn.(*member); ok && m.over {
		return context.WithValue(ctx, crowdedKey{}, true)
	}
	return ctx
}

// Crowded reports whether the request's connection is one too many. Refuse such a request: the process may have
// no descriptor left for what it needs. Its connection ends with the response.
func Crowded(r *http.Request) bool { return r.Context().Value(crowdedKey{}) != nil }

// brief ends the connections that are too many with their first response.
func brief(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if Crowded(r) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
