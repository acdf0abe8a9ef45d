package redistest

import (
	"bytes"
	"io"
	"net"
	"testing"
)

// Stranger starts a server that is not a Redis, and returns its address. It sends answer to whatever it
// is sent, and closes the connection. If later is set, the answer comes to the second request of a
// connection: the first one, HELLO, gets the error that an old Redis sends.
func Stranger(t testing.TB, answer string, later bool) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go meet(conn, answer, later)
		}
	}()
	return l.Addr().String()
}

func meet(conn net.Conn, answer string, later bool) {
	defer conn.Close()
	request := make([]byte, 64<<10)
	for {
		n, err := conn.Read(request)
		if err != nil {
			return
		}
		if later && bytes.Contains(bytes.ToLower(request[:n]), []byte("hello")) {
			_, _ = io.WriteString(conn, "-ERR unknown command\r\n")
			continue
		}
		_, _ = io.WriteString(conn, answer)
		return
	}
}
