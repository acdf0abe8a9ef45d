package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"turnstile"
	"turnstile/pkg/session"
)

// chat is one session's user: a sender that repeats what failed, and waits for the outcomes.
type chat struct {
	life   *life
	key    string
	wild   bool // it uses all modes, delays and commands; else each message must run, in order
	tame   bool // it is wild no more
	rng    *random
	client *turnstile.Client
	waits  sync.WaitGroup
}

// run sends messages until ctx ends, and returns when all have ended.
func (c *chat) run(ctx context.Context) {
	sleep(ctx, c.rng.upTo(3*time.Second))
	for n := 0; ctx.Err() == nil; n++ {
		if c.wild && c.rng.chance(8) {
			c.command(ctx)
		} else {
			c.say(fmt.Sprintf("m%d", n))
		}
		sleep(ctx, c.rng.about(8*time.Second))
	}
	c.waits.Wait()
}

// say submits a message until Redis replies. A sender whose call failed does not know whether the
// message is stored.
func (c *chat) say(id string) {
	m := &sent{session: c.key, id: id, routed: c.rng.chance(2)}
	message := turnstile.Message{ID: id, Text: "say " + id}
	if m.routed {
		message.ReplyTo, message.ReplyContext = hook, json.RawMessage(fmt.Sprintf(`{"session":%q}`, c.key))
	}
	if c.wild && !c.tame {
		m.mode = pick(c.rng, "", "", session.ModeQueue, session.ModeCollect, session.ModeSteer, session.ModeInterrupt, session.ModeRollback, session.ModeReject)
		if c.rng.chance(6) {
			message.Delay = c.rng.upTo(20 * time.Second)
		}
	}
	message.Mode = m.mode
	for attempt := 0; c.life.ctx.Err() == nil; attempt++ {
		call, cancel := context.WithTimeout(c.life.ctx, 10*time.Second)
		r, err := c.client.Session(c.key).Send(call, message)
		cancel()
		switch {
		case err == nil:
			m.accepted = true
			c.life.history.told(m, string(r.State))
			c.waits.Go(func() { c.wait(m) })
			return
		case errors.Is(err, session.ErrRefused):
			c.life.history.told(m, err.Error())
			return
		}
		c.life.history.note("%s cannot send %s: %v", c.key, id, err)
		if attempt == 0 && errors.Is(err, session.ErrUnchanged) && c.rng.chance(2) {
			c.life.history.told(m, err.Error()) // the user gives up
			return
		}
		sleep(c.life.ctx, c.rng.about(time.Second))
	}
}

// wait waits for the outcome until the life is over.
func (c *chat) wait(m *sent) {
	for c.life.ctx.Err() == nil {
		o, err := c.client.Session(c.key).Wait(c.life.ctx, m.id)
		switch {
		case err == nil:
			c.life.history.ended(m, o)
			return
		case errors.Is(err, session.ErrNotFound):
			c.life.history.lost(m)
			return
		}
		sleep(c.life.ctx, time.Second)
	}
}

// command sends a command once. An error does not say whether it was carried out.
func (c *chat) command(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var err error
	what := pick(c.rng, "/stop", "/new", "/undo", "/retry")
	switch what {
	case "/stop":
		_, err = c.client.Session(c.key).Stop(call)
	case "/new":
		_, err = c.client.Session(c.key).NewTranscript(call)
	case "/undo":
		_, err = c.client.Session(c.key).Undo(call)
	case "/retry":
		_, err = c.client.Session(c.key).Retry(call)
	}
	c.life.history.note("%s sends %s: %v", c.key, what, err)
}
