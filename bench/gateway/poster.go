package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// poster posts messages over one connection. It shares the machine's cores with the gateway that it
// measures, so it does no more than write a request and read its response: it parses only the status
// and the length.
type poster struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

func newPoster(ctx context.Context, addr string) (*poster, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &poster{conn: conn, in: bufio.NewReader(conn)}, nil
}

func (p *poster) close() { _ = p.conn.Close() }

const postBody = `{"text":"hello"}`

// post sends a message, and returns once all of its response is there.
func (p *poster) post(sessionKey string) error {
	p.out = append(p.out[:0], "POST /v1/sessions/"...)
	p.out = append(p.out, sessionKey...)
	p.out = append(p.out, "/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nContent-Type: application/json\r\nContent-Length: "...)
	p.out = strconv.AppendInt(p.out, int64(len(postBody)), 10)
	p.out = append(p.out, "\r\n\r\n"+postBody...)
	_ = p.conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := p.conn.Write(p.out); err != nil {
		return err
	}
	status, err := p.in.ReadString('\n')
	if err != nil {
		return err
	}
	length := 0
	for {
		line, err := p.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= len("\r\n") {
			break
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(p.in, text); err != nil {
		return err
	}
	if len(status) < len("HTTP/1.1 202") || status[:len("HTTP/1.1 202")] != "HTTP/1.1 202" {
		return fmt.Errorf("POST: %s%s", status, text)
	}
	return nil
}
