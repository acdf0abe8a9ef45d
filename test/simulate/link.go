package simulate

import (
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// link is the way of one process to a server. Faults of the network are made here.
type link struct {
	name  string
	seed  uint64
	serve func(net.Conn)

	mu    sync.Mutex
	conns []*conn
	dials int
	down  bool          // dials fail
	slow  time.Duration // beyond the usual delay
	held  chan struct{} // not nil: nothing arrives until it is closed
}

// usualDelay is the longest delay of a write on a good day.
const usualDelay = 400 * time.Microsecond

func newLink(seed uint64, name string, serve func(net.Conn)) *link {
	return &link{name: name, seed: seed, serve: serve}
}

// errRefused is returned by a dial while the server or the process is down. go-redis tries again later
// only if the error looks like a real one.
var errRefused = &net.OpError{Op: "dial", Net: "tcp", Addr: address{}, Err: syscall.ECONNREFUSED}

// errTimeout is returned by a dial, at once, while nothing arrives.
var errTimeout = &net.OpError{Op: "dial", Net: "tcp", Addr: address{}, Err: os.ErrDeadlineExceeded}

func (l *link) dial() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.down:
		return nil, errRefused
	case l.held != nil:
		return nil, errTimeout
	}
	l.dials++
	up := newStream(l, newRandom(l.seed, fmt.Sprint(l.name, " up ", l.dials)))
	down := newStream(l, newRandom(l.seed, fmt.Sprint(l.name, " down ", l.dials)))
	c := &conn{in: down, out: up, closed: l.forget}
	l.conns = append(l.conns, c)
	l.serve(&conn{in: up, out: down})
	return c, nil
}

func (l *link) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = slices.DeleteFunc(l.conns, func(other *conn) bool { return other == c })
}

// cut closes all connections. before: requests on their way are lost, too; else the server carries them
// out, and only their replies are lost.
func (l *link) cut(before bool) {
	l.mu.Lock()
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	for _, c := range conns {
		c.in.lose()
		if before {
			c.out.lose()
		} else {
			c.out.close()
		}
	}
}

// setDown makes dials fail, or work again.
func (l *link) setDown(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

// setSlow makes each write up to d slower.
func (l *link) setSlow(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = d
}

func (l *link) longestDelay() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return usualDelay + l.slow
}

// hold delays all data until release.
func (l *link) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = make(chan struct{})
	}
}

func (l *link) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		close(l.held)
		l.held = nil
	}
}

// released returns a channel that release closes, or nil if the link is not held.
func (l *link) released() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}
