package redistest

import (
	"context"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Replies counts the bytes that Redis sends to a client. Add it as a hook before the client's first command.
type Replies struct {
	mu             sync.Mutex
	total, largest int
}

// Take returns how many bytes came since the last call, in all replies, and in the largest one. The replies of a
// pipeline are one.
func (r *Replies) Take() (total, largest int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	total, largest = r.total, r.largest
	r.total, r.largest = 0, 0
	return total, largest
}

// DialHook implements redis.Hook.
func (r *Replies) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &countedConn{Conn: conn, to: r}, nil
	}
}

// ProcessHook implements redis.Hook.
func (*Replies) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (*Replies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// countedConn is used by one command or pipeline at a time.
type countedConn struct {
	net.Conn
	to    *Replies
	reply int // bytes since the last request
}

func (c *countedConn) Write(data []byte) (int, error) {
	c.reply = 0
	return c.Conn.Write(data)
}

func (c *countedConn) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	c.to.mu.Lock()
	defer c.to.mu.Unlock()
	c.reply += n
	c.to.total, c.to.largest = c.to.total+n, max(c.to.largest, c.reply)
	return n, err
}
