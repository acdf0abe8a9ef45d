package gateway

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"
)

// vanishedAfter is how long a client may acknowledge nothing, at least one heartbeat.
const vanishedAfter = 30 * time.Second

// sentMost is how many bytes a client may send while it has a stream. They are dropped. No further
// request is read from its connection.
const sentMost = 4096

// taken is a connection that a stream has taken over from the HTTP server. The server's buffers and
// the deep stack of its handler would be most of an idle stream's memory.
type taken struct {
	net.Conn
	head    []byte // of the response, until the first send
	chunked bool
}

// takeOver takes over the connection of a request, with the response's header still to be sent. It
// returns false if the server must end the request itself: with HTTP/2, or with a body.
func takeOver(w http.ResponseWriter, r *http.Request) (*taken, bool) {
	if r.ProtoMajor != 1 || r.ContentLength != 0 {
		return nil, false
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, false
	}
	boundVanished(conn)
	t := &taken{Conn: conn, chunked: r.ProtoAtLeast(1, 1)}
	h := w.Header()
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	if t.chunked { // no Connection: close, with which Node's fetch takes a broken stream for a whole one
		h.Set("Transfer-Encoding", "chunked")
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.%d 200 OK\r\n", min(r.ProtoMinor, 1))
	_ = h.Write(&head) // a buffer's Write does not fail
	head.WriteString("\r\n")
	t.head = head.Bytes()
	return t, true
}

// oneWrite is up to how many bytes are copied, so that they are one write and one packet whatever the connection is.
const oneWrite = 16 << 10

func (t *taken) send(data []byte) error {
	before, after := t.head, []byte(nil)
	t.head = nil
	if t.chunked {
		before, after = fmt.Appendf(before, "%x\r\n", len(data)), []byte("\r\n")
	}
	if len(data) <= oneWrite {
		return t.write(net.Buffers{slices.Concat(before, data, after)})
	}
	return t.write(net.Buffers{before, data, after})
}

func (t *taken) cut() { _ = t.Close() }

func (t *taken) end() {
	if t.chunked {
		_ = t.write(net.Buffers{[]byte("0\r\n\r\n")}) // the connection is closed anyway
	}
}

func (t *taken) write(data net.Buffers) error {
	if err := t.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := data.WriteTo(t.Conn)
	return err
}

// drop drops the client's input until the client goes away or has sent too much. Then the stream
// ends.
func (t *taken) drop(cancel context.CancelCauseFunc) {
	var some [64]byte
	for n := 0; n <= sentMost; {
		got, err := t.Read(some[:])
		if err != nil {
			break
		}
		n += got
	}
	cancel(errGone)
}
