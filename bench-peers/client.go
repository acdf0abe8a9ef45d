package main

import (
	"context"
	"fmt"
	"time"

	"turnstile/bench/internal/lab"
)

// job is a child process's job: to be the client of a peer, or a peer's server.
type job struct {
	Peer    string   `json:"peer"`
	Shape   lab.Load `json:"shape"`
	Address string   `json:"address"` // the server's; empty: this process becomes it
	Durable bool     `json:"durable"`
	Slots   int      `json:"slots"`
	Text    string   `json:"text"`

	Patience time.Duration `json:"patience"` // for all messages
}

// outcome is a client's response to "run". Sent is zero if handlers began before everything was
// sent.
type outcome struct {
	Sent, Took, Processor time.Duration
	Error                 string
}

// client sends and handles messages by a peer.
type client interface {
	// send returns when the peer has accepted the message. It is called for many sessions
	// concurrently, and for one session in the order of the messages.
	send(ctx context.Context, session int, text []byte) error
	// work starts to call handle, in slots goroutines.
	work(ctx context.Context, handle func(text []byte) error) (stop func(), err error)
	close()
}

// runClient is the process of a client in Go: it sends all messages, then handles all.
func runClient(ctx context.Context, j job, open func(context.Context, job) (client, error)) error {
	c, err := open(ctx, j)
	if err != nil {
		return err
	}
	defer c.close()
	r, stop := newRecorder(j.Shape), func() {}
	ctx, cancel := context.WithTimeout(ctx, j.Patience)
	defer cancel()
	return lab.Obey(func(word string) any {
		switch word {
		case "run":
			o, ended, err := drive(ctx, c, j.Shape, r)
			if stop = ended; ctx.Err() != nil {
				o.Error = fmt.Sprintf("of %d messages %d were accepted and %d handled in %s", j.Shape.Messages(), r.sent.Load(), r.handled(), j.Patience)
			} else if err != nil {
				o.Error = err.Error()
			}
			return o
		case "history": // its handlers have returned
			stop()
			return r.history()
		}
		return outcome{Error: fmt.Sprintf("unknown word %q", word)}
	})
}

// drive measures a client. stop is never nil.
func drive(ctx context.Context, c client, shape lab.Load, r *recorder) (o outcome, stop func(), err error) {
	stop = func() {}
	used, err := lab.ProcessorTime()
	if err != nil {
		return o, stop, err
	}
	start := time.Now()
	if err := lab.Parallel(shape.Sessions, func(session int) error {
		for sequence := range shape.Each {
			if err := c.send(ctx, session, encode(session, sequence)); err != nil {
				return err
			}
			r.sent.Add(1)
		}
		return nil
	}); err != nil {
		return o, stop, err
	}
	o.Sent = time.Since(start)
	ended, err := c.work(ctx, r.handle)
	if err != nil {
		return o, stop, err
	}
	err = r.left.Wait(ctx)
	o.Took = time.Since(start)
	now, processorErr := lab.ProcessorTime()
	if err == nil {
		err = processorErr
	}
	o.Processor = now - used
	return o, ended, err
}
