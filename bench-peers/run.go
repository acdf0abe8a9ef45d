package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"turnstile/bench/internal/lab"
	"turnstile/bench/peers/internal/history"
)

// startAndEnd is the time of a run beyond its messages.
const startAndEnd = time.Minute

var errPatience = errors.New("it did not end in time")

// figures are the results of one run. Processor times are for each message.
type figures struct {
	rate    float64 // messages/s, from the first one's send to the last one's end
	handled float64 // messages/s from the workers' start on; 0: they started before
	client  time.Duration
	server  time.Duration
	verdict history.Verdict
}

// measure runs a peer once: a new server, a new client, all messages of the shape, within patience.
func measure(ctx context.Context, p peer, shape lab.Load, durable bool, patience time.Duration) (f figures, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience+startAndEnd, errPatience)
	defer cancel()
	defer func() {
		if cause := context.Cause(ctx); err != nil && errors.Is(cause, errPatience) {
			err = cause
		}
	}()
	j := job{Peer: p.name, Shape: shape, Durable: durable, Slots: slots, Text: said, Patience: patience}
	srv, err := p.start(ctx, j)
	if err != nil {
		return f, err
	}
	defer srv.stop()
	j.Address = srv.address
	client, errs, err := p.spawn(ctx, j)
	if err != nil {
		return f, err
	}
	defer func() {
		client.End()
		if said := errs.String(); err != nil && said != "" {
			err = fmt.Errorf("%w: %s", err, said)
		}
	}()
	before, err := srv.processor(ctx)
	if err != nil {
		return f, err
	}
	var o outcome
	if err := client.Call("run", &o); err != nil {
		return f, err
	}
	if o.Error != "" {
		return f, errors.New(o.Error)
	}
	after, err := srv.processor(ctx)
	if err != nil {
		return f, err
	}
	var steps []history.Step
	if err := client.Call("history", &steps); err != nil {
		return f, err
	}
	n := shape.Messages()
	f = figures{
		rate:    float64(n) / o.Took.Seconds(),
		client:  o.Processor / time.Duration(n),
		server:  (after - before) / time.Duration(n),
		verdict: history.Check(shape.Sessions, shape.Each, steps),
	}
	if o.Sent > 0 {
		f.handled = float64(n) / (o.Took - o.Sent).Seconds()
	}
	return f, nil
}
