package gateway

import (
	"errors"
	"strings"
	"testing"

	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// pipe is a client that reads when it is told to.
type pipe struct {
	sends chan int // the bytes of a send that waits
	reads chan struct{}
	over  chan struct{}
}

func newPipe() pipe { return pipe{make(chan int, 1), make(chan struct{}), make(chan struct{})} }

func (p pipe) send(data []byte) error {
	p.sends <- len(data)
	select {
	case <-p.reads:
		return nil
	case <-p.over:
		return errors.New("closed")
	}
}

func (p pipe) cut() { close(p.over) }
func (pipe) end()   {}

// The bytes that wait for all clients have a bound. Beyond it the client that has not read for the longest time loses
// its stream, and no other.
func TestSlowestClientsLoseTheirStreams(t *testing.T) {
	t.Parallel()
	g := New(Config{}, Deps{})
	g.sendings = newSendings(1000)
	page := func() []session.Event {
		return []session.Event{{Type: session.EventText, ID: "1-0.0", Text: strings.Repeat("x", 150)}, {Type: session.EventText, ID: "2-0.0", Text: strings.Repeat("x", 150)}}
	}
	type client struct {
		pipe
		err  chan error
		lost *error
	}
	open := func(holds int) client {
		c := client{newPipe(), make(chan error, 1), new(error)}
		w := newEventWriter(c.pipe, &stream{gateway: g, cancel: func(cause error) { *c.lost = cause }})
		w.holds = holds
		go func() { c.err <- w.page(page()) }()
		if n := expect.Received(t, "send", c.sends); n < 300 || n > 500 {
			t.Errorf("a page of two events has %d bytes", n)
		}
		return c
	}
	first, second := open(0), open(0)
	second.reads <- struct{}{}
	expect.OK(t, expect.Received(t, "the second", second.err))
	third := open(0)
	expect.Equal(t, "nobody is lost", len(first.err)+len(third.err), 0)
	fourth := open(0) // more than 1000 bytes wait
	expect.Equal(t, "the first", expect.Received(t, "the first", first.err), errSlow)
	expect.Equal(t, "its stream", *first.lost, errSlow)
	fifth := open(500) // and what its reader holds
	for _, c := range []client{third, fourth} {
		expect.Equal(t, "the next one", expect.Received(t, "the next one", c.err), errSlow)
	}
	fifth.reads <- struct{}{}
	expect.OK(t, expect.Received(t, "the fifth", fifth.err))
	expect.Equal(t, "its stream", *fifth.lost, nil)
	expect.Equal(t, "bytes that wait", g.sendings.bytes, 0)
	huge := open(5000)
	huge.reads <- struct{}{}
	expect.OK(t, expect.Received(t, "one alone", huge.err))
}
