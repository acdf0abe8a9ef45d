package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"turnstile"
	"turnstile/pkg/session"
	"turnstile/test/history"
)

// chat is one session's user: a sender that repeats failed calls, and waits for the outcomes.
type chat struct {
	life   *life
	key    string
	wild   bool // it uses all modes, delays and commands; else each message must run, in order
	tame   bool // it is no longer wild
	rng    *random
	client *turnstile.Client
	waits  sync.WaitGroup
}

// run sends messages until ctx ends, and returns after the end of all.
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

// say sends a message until Redis replies. After a failed call, a sender does not know whether
// the message is stored.
func (c *chat) say(id string) {
	rec := history.Record{Session: c.key, ID: id, Via: "client", Mode: string(session.ModeQueue)} // the default
	message := turnstile.Message{ID: id, Text: "say " + id}
	if c.rng.chance(2) {
		rec.Route = hook
		message.ReplyTo, message.ReplyContext = hook, json.RawMessage(fmt.Sprintf(`{"session":%q}`, c.key))
	}
	if c.wild && !c.tame {
		message.Mode = pick(c.rng, "", "", session.ModeQueue, session.ModeCollect, session.ModeSteer, session.ModeInterrupt, session.ModeRollback, session.ModeReject)
		if c.rng.chance(6) {
			message.Delay = c.rng.upTo(20 * time.Second)
			rec.Delay = int64(message.Delay)
		}
		rec.Mode = string(cmp.Or(message.Mode, session.ModeQueue))
	}
	for attempt := 0; c.life.ctx.Err() == nil; attempt++ {
		rec.Kind, rec.Attempt, rec.Since = history.Send, attempt, time.Now().UnixNano()
		c.life.log.Add(rec)
		call, cancel := context.WithTimeout(c.life.ctx, 10*time.Second)
		r, err := c.client.Session(c.key).Send(call, message)
		cancel()
		told := rec
		told.Kind, told.Status, told.Reason = history.Told, history.Accepted, string(r.State)
		switch {
		case err == nil:
			c.waits.Go(func() { c.wait(id, rec.Route != "") })
		case errors.Is(err, session.ErrRefused):
			told.Status, told.Reason = history.Refused, err.Error()
		case attempt == 0 && errors.Is(err, session.ErrUnchanged) && c.rng.chance(2): // the user gives up
			told.Status, told.Reason = history.Refused, err.Error()
		default:
			told.Status, told.Error = history.Unknown, err.Error()
		}
		c.life.log.Add(told)
		if told.Status != history.Unknown {
			return
		}
		sleep(c.life.ctx, c.rng.about(time.Second))
	}
}

// wait waits for the outcome until the life is over. If the message has a route, the receiver gets its
// outcome.
func (c *chat) wait(id string, routed bool) {
	rec := history.Record{Kind: history.Wait, Session: c.key, ID: id, Via: "client", Since: time.Now().UnixNano()}
	if routed {
		c.life.receiver.expects(c.key, id)
	}
	for c.life.ctx.Err() == nil {
		o, err := c.client.Session(c.key).Wait(c.life.ctx, id)
		switch {
		case err == nil:
			rec.Status, rec.Reply, rec.Turn, rec.Reason = string(o.Status), o.Reply, o.Turn, o.Why()
			c.life.log.Add(rec)
			return
		case errors.Is(err, session.ErrNotFound):
			rec.Status, rec.Error = "unknown", err.Error()
			c.life.log.Add(rec)
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
	since, what := time.Now().UnixNano(), pick(c.rng, "/stop", "/new", "/undo", "/retry")
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
	rec := history.Record{Kind: history.Command, Session: c.key, Name: what, Via: "client", Since: since}
	if err != nil {
		rec.Error = err.Error()
	}
	c.life.log.Add(rec)
}
