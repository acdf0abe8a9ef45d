// Package combine sends the commands of many goroutines in shared round trips, and
// calls of some scripts in shared commands.
package combine

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Combiner sends commands. What comes while enough requests are on their way
// waits for one of them to land, and then goes together as one pipeline: with
// many goroutines that saves most of the system calls, which are most of what a
// small command costs. A lone caller notices nothing of it. On a Redis Cluster a
// pipeline would be split over several servers, so there each goes alone.
type Combiner struct {
	client redis.UniversalClient
	single bool
	most   int // requests on their way at once

	mu      sync.Mutex
	flights int
	waiting []*passenger
}

// passenger is a command or a call that waits to be sent.
type passenger struct {
	ctx  context.Context
	cmd  *redis.Cmd // or
	call *Call
	// told gets nil when it was carried out, or all who waited when this one is to
	// send for them, itself the first.
	told chan []*passenger
}

// New combines what goes to client beyond as many requests on their way as
// flights. More than one, so that a connection that hangs holds up only its own.
func New(client redis.UniversalClient, flights int) *Combiner {
	_, single := client.(*redis.Client)
	return &Combiner{client: client, single: single, most: flights}
}

// Process carries out cmd, as client.Process does. When ctx ends while the
// command waits it is not sent; one that is on its way is waited for.
func (c *Combiner) Process(ctx context.Context, cmd *redis.Cmd) {
	if c.departs() {
		defer c.landed()
		_ = c.client.Process(ctx, cmd) // cmd has the error
		return
	}
	if err := c.ride(&passenger{ctx: ctx, cmd: cmd}); err != nil {
		cmd.SetErr(err)
	}
}

// Do carries out a call, as Process does a command.
func (c *Combiner) Do(ctx context.Context, call *Call) {
	if c.departs() {
		defer c.landed()
		c.send(ctx, nil, []joint{newJoint(ctx, []*Call{call})})
		return
	}
	if err := c.ride(&passenger{ctx: ctx, call: call}); err != nil {
		call.Err = err
	}
}

// departs begins a flight for one who need not wait, if there is a free one.
func (c *Combiner) departs() bool {
	if !c.single {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights == c.most {
		return false
	}
	c.flights++
	return true
}

// ride waits for a flight with others; an error says that p was not sent.
func (c *Combiner) ride(p *passenger) error {
	p.told = make(chan []*passenger, 1)
	c.mu.Lock()
	if c.flights < c.most { // one has landed meanwhile
		c.flights++
		p.told <- []*passenger{p}
	} else {
		c.waiting = append(c.waiting, p)
	}
	c.mu.Unlock()
	var all []*passenger
	select {
	case all = <-p.told:
	case <-p.ctx.Done():
		if c.leave(p) {
			return p.ctx.Err()
		}
		all = <-p.told
	}
	if all != nil {
		defer c.landed()
		c.fly(all)
	}
	return nil
}

// leave takes p out of those who wait; false: it is already on its way.
func (c *Combiner) leave(p *passenger) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.waiting, p)
	if i < 0 {
		return false
	}
	c.waiting = slices.Delete(c.waiting, i, i+1)
	return true
}

// landed ends a flight, or lets who waits have it.
func (c *Combiner) landed() {
	if !c.single {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.waiting
	c.waiting = nil
	if len(all) == 0 {
		c.flights--
		return
	}
	all[0].told <- all
}

func (c *Combiner) fly(all []*passenger) {
	ctx := all[0].ctx
	if len(all) > 1 {
		// The first one's end must not end the others.
		ctx = context.WithoutCancel(ctx)
		defer func() {
			for _, p := range all[1:] {
				p.told <- nil
			}
		}()
	}
	var cmds []*redis.Cmd
	var calls []*Call
	for _, p := range all {
		if p.call != nil {
			calls = append(calls, p.call)
		} else {
			cmds = append(cmds, p.cmd)
		}
	}
	c.send(ctx, cmds, c.join(ctx, calls))
}

// send carries out all in one round trip. Each command has its error.
func (c *Combiner) send(ctx context.Context, cmds []*redis.Cmd, joints []joint) {
	for _, j := range joints {
		cmds = append(cmds, j.cmd)
	}
	if len(cmds) == 1 {
		_ = c.client.Process(ctx, cmds[0])
	} else {
		pipe := c.client.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd)
		}
		_, _ = pipe.Exec(ctx)
	}
	for _, j := range joints {
		c.settle(ctx, j)
	}
}

// Waiting is how many commands and calls wait for a request to land.
func (c *Combiner) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}
