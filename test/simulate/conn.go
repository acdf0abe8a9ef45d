package simulate

import (
	"net"
	"time"
)

// conn is one end of a connection in memory.
type conn struct {
	in, out *stream
	closed  func(*conn) // may be nil
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p) }

func (c *conn) Close() error {
	c.in.lose() // nobody reads it
	c.out.close()
	if c.closed != nil {
		c.closed(c)
	}
	return nil
}

func (c *conn) LocalAddr() net.Addr               { return address{} }
func (c *conn) RemoteAddr() net.Addr              { return address{} }
func (c *conn) SetDeadline(t time.Time) error     { return c.SetReadDeadline(t) }
func (c *conn) SetReadDeadline(t time.Time) error { c.in.setDeadline(t); return nil }
func (c *conn) SetWriteDeadline(time.Time) error  { return nil } // writes do not wait

type address struct{}

func (address) Network() string { return "memory" }
func (address) String() string  { return "memory:6379" }
