package redistest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/proto"
	"github.com/redis/go-redis/v9"
)

// Wire makes faults on the connections of a client, below go-redis. So code that repeats commands
// sees them like faults of the network. Client returns a client with one.
//
// A write of several commands matches when one of them does, and is treated as a whole.
type Wire struct {
	mu    sync.Mutex
	match Match
	lose  int // how many further matching writes lose their replies
	then  Fate
	sent  int // matching writes that reached the server
}

// Fate is the fate of a matching write: an error as its reply, without sending the write, or one of
// the following.
type Fate string

// The fates of a write that gets no error from the server.
const (
	CarriedOut Fate = ""          // it passes
	Cut        Fate = "cut"       // the connection is closed before anything is sent
	NoServer   Fate = "no server" // the same, and no other connection can be opened
)

// Loading and ReadOnly are replies of a Redis that has restarted or failed over.
const (
	Loading  Fate = "LOADING Redis is loading the dataset in memory"
	ReadOnly Fate = "READONLY You can't write against a read only replica."
)

// LoseReply carries out the next write that matches and loses its reply: the connection is closed.
// Later writes meet then. If the server does not know the script of a write, the write is not
// carried out, and its reply passes.
func (w *Wire) LoseReply(match Match, then Fate) { w.set(match, 1, then) }

// Meet makes every write that matches meet a fate.
func (w *Wire) Meet(match Match, fate Fate) { w.set(match, 0, fate) }

// Heal ends the faults and returns how many matching writes reached the server.
func (w *Wire) Heal() int { return w.set(nil, 0, CarriedOut) }

func (w *Wire) set(match Match, lose int, then Fate) (sent int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent = w.sent
	w.match, w.lose, w.then, w.sent = match, lose, then, 0
	return sent
}

// Client returns a client of the same server or Cluster as of, with connections through the wire. It
// is closed when the test ends.
func (w *Wire) Client(t testing.TB, of redis.UniversalClient) redis.UniversalClient {
	t.Helper()
	var client redis.UniversalClient
	switch c := of.(type) {
	case *redis.Client:
		o := *c.Options()
		o.Dialer, o.DialerRetries = w.dial, 1
		client = redis.NewClient(&o)
	case *redis.ClusterClient:
		o := *c.Options()
		o.Dialer, o.DialerRetries = w.dial, 1
		client = redis.NewClusterClient(&o)
	default:
		t.Fatalf("redistest: no wire for a %T", of)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (w *Wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	down := w.match != nil && w.lose == 0 && w.then == NoServer
	w.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &wired{Conn: c, wire: w, replies: bufio.NewReader(c)}, nil
}

// meets returns the fate of commands, and whether their replies must be lost.
func (w *Wire) meets(cmds []redis.Cmder) (fate Fate, lose bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.match == nil || !slices.ContainsFunc(cmds, w.match):
		return CarriedOut, false
	case w.lose > 0:
		return CarriedOut, true
	}
	if w.then == CarriedOut {
		w.sent++
	}
	return w.then, false
}

func (w *Wire) lost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose--
	w.sent++
}

// wired is a connection of a Wire. go-redis writes commands and then reads their replies.
type wired struct {
	net.Conn
	wire    *Wire
	replies *bufio.Reader
	unsent  bytes.Buffer // the beginning of a command
	own     bytes.Buffer // replies made by the wire
	closed  bool
}

func (c *wired) Write(p []byte) (int, error) {
	if c.closed {
		return 0, net.ErrClosed
	}
	c.unsent.Write(p)
	text, cmds := c.commands()
	if len(cmds) == 0 {
		return len(p), nil
	}
	fate, lose := c.wire.meets(cmds)
	switch fate {
	case CarriedOut:
		if _, err := c.Conn.Write(text); err != nil {
			return 0, err
		}
		if lose {
			c.lose(len(cmds))
		}
	case Cut, NoServer:
		c.close()
	default:
		for range cmds {
			c.own.WriteString(proto.Error(string(fate)))
		}
	}
	return len(p), nil
}

// commands takes the whole commands that are yet to be sent.
func (c *wired) commands() (text []byte, cmds []redis.Cmder) {
	in := bufio.NewReader(bytes.NewReader(c.unsent.Bytes()))
	for {
		raw, err := proto.Read(in)
		if err != nil {
			break
		}
		words, err := proto.ReadStrings(raw)
		if err != nil {
			panic(fmt.Sprintf("redistest: a client has written %q: %v", raw, err))
		}
		args := make([]any, len(words))
		for i, word := range words {
			args[i] = word
		}
		cmds = append(cmds, redis.NewCmd(context.Background(), args...))
		text = append(text, raw...)
	}
	c.unsent.Next(len(text))
	return text, cmds
}

// lose reads n replies, after which the commands have been carried out, and closes the connection.
func (c *wired) lose(n int) {
	_ = c.Conn.SetReadDeadline(time.Time{}) // the last command's
	var all strings.Builder
	for range n {
		reply, err := proto.Read(c.replies)
		if err != nil {
			panic(fmt.Sprintf("redistest: read the reply that is to be lost: %v", err))
		}
		all.WriteString(reply)
	}
	if strings.Contains(all.String(), "-NOSCRIPT") {
		c.own.WriteString(all.String())
		return
	}
	c.wire.lost()
	c.close()
}

// close makes the connection look closed by the other side.
func (c *wired) close() { c.closed = true }

func (c *wired) Read(p []byte) (int, error) {
	switch {
	case c.own.Len() > 0:
		return c.own.Read(p)
	case c.closed:
		return 0, io.EOF
	}
	return c.replies.Read(p)
}
