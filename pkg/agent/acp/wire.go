package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"unicode/utf8"

	acpsdk "github.com/coder/acp-go-sdk"

	"turnstile/internal/process/command"
	"turnstile/internal/text/boundedjson"
)

// The SDK has a connection, too. It holds a buffer of a MiB for each agent as long as the agent
// lives, and closes the connection of an agent that sends more than 1024 updates faster than they
// are taken. This one costs an idle agent a few KiB, and reads no faster than its updates are
// taken.

const (
	maxUnread = 16 << 20 // bytes that wait for the agent to read them
	lineSpace = 4 << 10  // bytes of the buffer that an idle connection keeps
)

// message is any message of JSON-RPC 2.0.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// peer takes the agent's requests and notifications. Its methods are called one after the other, in
// the order of the messages, and block later messages.
type peer interface {
	// piece takes a whole line if it is a notification that is worth a shortcut.
	piece(line []byte) bool
	notified(method string, params json.RawMessage)
	requested(id json.RawMessage, method string, params json.RawMessage)
}

// response is the response to a request.
type response struct {
	result json.RawMessage
	err    *acpsdk.RequestError
}

// conn speaks JSON-RPC, one message a line. No call of it waits for the agent to read.
type conn struct {
	in     io.WriteCloser
	peer   peer
	logger *slog.Logger
	hurry  func() // called when the agent waits for a response, and will continue at once

	closed chan struct{} // when the agent's output ends, or is no longer read
	cause  error         // why, written before; nil: its output ended
	once   sync.Once

	mu      sync.Mutex
	last    int64
	pending map[int64]func(response)

	out     sync.Mutex
	unsent  [][]byte
	size    int // bytes of unsent, and of the present write
	writing bool
	ending  bool // in is to be closed when all is written
	writer  sync.WaitGroup
}

func newConn(in io.WriteCloser, peer peer, logger *slog.Logger) *conn {
	return &conn{in: in, peer: peer, logger: logger, hurry: func() {}, closed: make(chan struct{}), pending: map[int64]func(response){}}
}

// request sends a request. done is called with the response, in the order of the agent's messages,
// and never if none comes.
func (c *conn) request(method string, params any, done func(response)) {
	c.mu.Lock()
	c.last++
	id := c.last
	c.pending[id] = done
	c.mu.Unlock()
	c.send(message{ID: encode(id), Method: method, Params: encode(params)})
}

func (c *conn) notify(method string, params any) {
	c.send(message{Method: method, Params: encode(params)})
}

// reply responds to a request of the agent.
func (c *conn) reply(id json.RawMessage, result any, err *acpsdk.RequestError) {
	if err != nil {
		c.send(message{ID: id, Error: encode(err)})
		return
	}
	c.send(message{ID: id, Result: encode(result)})
}

func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // the protocol's own structs, made here
	}
	return data
}

func (c *conn) send(m message) {
	m.JSONRPC = "2.0"
	line := append(encode(m), '\n')
	c.out.Lock()
	defer c.out.Unlock()
	if c.ending {
		return
	}
	if c.size+len(line) > maxUnread {
		c.fail(errUnread)
		return
	}
	c.unsent = append(c.unsent, line)
	c.size += len(line)
	c.write()
}

// write starts a writer if none runs; idle connections have no goroutine for it. c.out is held.
func (c *conn) write() {
	if c.writing {
		return
	}
	c.writing = true
	c.writer.Go(func() {
		for {
			c.out.Lock()
			lines := c.unsent
			c.unsent = nil
			if len(lines) == 0 {
				c.writing = false
				if c.ending {
					_ = c.in.Close()
				}
				c.out.Unlock()
				return
			}
			c.out.Unlock()
			for _, line := range lines {
				// The end of the agent's output shows that it is gone.
				_, _ = c.in.Write(line)
				c.out.Lock()
				c.size -= len(line)
				c.out.Unlock()
			}
		}
	})
}

// end closes the agent's stdin once all is written that was sent.
func (c *conn) end() {
	c.out.Lock()
	defer c.out.Unlock()
	c.ending = true
	c.write()
}

// read reads until the agent's output ends. It is called once.
func (c *conn) read(r io.Reader) {
	lines := bufio.NewReaderSize(command.NewCutter(r), lineSpace)
	for {
		line, err := readLine(lines)
		switch {
		case errors.Is(err, io.EOF):
			c.fail(c.contained(line)) // the last line may lack its line feed
			return
		case err == nil:
			err = c.contained(line)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// fail ends the connection.
func (c *conn) fail(cause error) {
	c.once.Do(func() {
		c.cause = cause
		close(c.closed)
	})
}

var errUnread = fmt.Errorf("it has left more than %d MiB unread", maxUnread>>20)

// readLine reads a line, which is valid until the next call. The last one comes
// with io.EOF.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	long := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = r.ReadSlice('\n')
		long = append(long, line...)
	}
	return long, err
}

// contained calls line and returns its panic as an error.
func (c *conn) contained(line []byte) error {
	return command.Contained(c.logger, func() error {
		c.line(line)
		return nil
	})
}

// line takes one message. A line that is not a message is ignored: some agents print a banner.
func (c *conn) line(line []byte) {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return
	}
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	if c.peer.piece(line) {
		return
	}
	var m message
	if err := boundedjson.Unmarshal(line, &m); err != nil {
		c.logger.Debug("a line of the agent is not a message", "line", fmt.Sprintf("%.200s", line), "error", err)
		return
	}
	switch {
	case m.Method != "" && m.ID != nil:
		c.hurry()
		c.peer.requested(bytes.Clone(m.ID), m.Method, m.Params)
	case m.Method != "":
		c.peer.notified(m.Method, m.Params)
	default:
		c.handleResponse(m)
	}
}

func (c *conn) handleResponse(m message) {
	var id int64
	err := json.Unmarshal(m.ID, &id)
	c.mu.Lock()
	done := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	if err != nil || done == nil {
		c.logger.Debug("the agent responded to an unknown request", "id", string(m.ID))
		return
	}
	done(response{m.Result, failure(m.Error)})
}

// failure is the error of a response, in whatever form the agent has given it.
func failure(data json.RawMessage) *acpsdk.RequestError {
	if data == nil || string(data) == "null" {
		return nil
	}
	var err acpsdk.RequestError
	if boundedjson.Unmarshal(data, &err) != nil {
		err = acpsdk.RequestError{Code: codeInternal, Message: string(data)}
	}
	return &err
}
