package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/chat/terminal"
	"turnstile/internal/protocol/wire"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
)

// errTimeout is the cause with which --timeout ends a context.
var errTimeout = errors.New("no reply in time")

// single sends one message.
type single struct {
	ctx context.Context
	o   options
	m   wire.Message
	out *output

	link   *away
	teller terminal.Teller // of --follow
	seen   string          // the ID of the last event
}

func newSingle(ctx context.Context, o options, m wire.Message, out *output, link *away) *single {
	return &single{
		ctx: ctx, o: o, m: m, out: out, link: link, seen: o.after,
		teller: terminal.Teller{Story: newStory(o, o.session, m.ID), Screen: out.screen},
	}
}

func (s *single) run(client *turnstile.Client, rdb redis.UniversalClient) (int, error) {
	// Closing the connection ends a read at once.
	defer context.AfterFunc(s.ctx, func() { _ = rdb.Close() })()
	if s.o.after == "" {
		if over, err := s.send(client); over || err != nil {
			return exitOK, err
		}
	}
	end, err := s.await(client)
	if err != nil {
		return 0, s.waitFailed(err)
	}
	s.show(end)
	if end.Status != session.StatusDone {
		return 0, failure{code: exitEnded, text: endText(end), said: true}
	}
	return exitOK, nil
}

// send sends the message. over says that there is nothing to await.
func (s *single) send(client *turnstile.Client) (over bool, err error) {
	r, err := receipt.Input(s.ctx, s.o.chat(client, s.o.session), outgoing(s.m, s.o.in, s.o.route(), s.o.agent))
	if err != nil {
		return true, sendFailure(s.ctx, s.o.session, s.m, r, err, "--id")
	}
	if r.Invalid {
		return true, badCommand(r)
	}
	if s.o.json {
		s.out.receipt(r, 0)
	}
	if r.Status != receipt.Refused {
		s.out.did(r, 0)
	}
	switch {
	case r.Status == receipt.Refused:
		return true, refused(r)
	case r.Status == receipt.Answered:
		if !s.o.json {
			s.out.text(r.Reply)
			s.out.endLine()
		}
		return true, nil
	case !s.o.wait && !s.o.follow:
		if !s.o.json {
			s.out.text(receiptText(r) + "\n")
		}
		return true, nil
	case !s.o.json && s.out.onTTY:
		s.out.note(receiptText(r))
	}
	return false, nil
}

// chat is a session in which the program's user decides questions.
func (o options) chat(client *turnstile.Client, key string) *turnstile.Session {
	return client.Session(key).As(o.user)
}

// outgoing is a message to send after a delay, with its outcome's route and its session's agent.
func outgoing(m wire.Message, in time.Duration, route wire.Route, agent string) turnstile.Message {
	return turnstile.Message{
		ID: m.ID, Text: m.Text, Mode: m.Mode, Meta: m.Meta, Attachments: m.Attachments, ExpiresIn: time.Duration(m.ExpiresIn), Delay: in, Agent: agent,
		ReplyTo: route.To, ReplyContext: route.Context, ReplyBy: route.By, ReplyWithin: route.Within,
	}
}

// sendFailure is the failure of a message's, or a command's, Send. It says whether it may be
// stored. again is the flag that repeats it with its ID.
func sendFailure(ctx context.Context, key string, m wire.Message, r receipt.Receipt, err error, again string) failure {
	f := failure{session: key, id: m.ID, code: exitOther, text: redisconn.Explain(err)}
	switch {
	case errors.Is(err, session.ErrInvalid):
		f.code, f.text = exitUsage, err.Error()
		return f
	case ctx.Err() != nil:
		f.code, f.text = exitInterrupted, "interrupted before Redis responded"
	}
	command := r.Status == receipt.Answered
	if command {
		f.id = "" // it has none
	}
	switch {
	case command && errors.Is(err, session.ErrUnchanged):
		f.text += "; nothing was changed"
	case command:
		f.text += "; the command may have been carried out"
	case errors.Is(err, session.ErrUnchanged):
		f.text += "; nothing was stored"
	default:
		f.text += fmt.Sprintf("; the message may be stored: it is safe to repeat it with %s %s", again, m.ID)
	}
	return f
}

// badCommand is the failure of a command with wrong arguments.
func badCommand(r receipt.Receipt) failure {
	return failure{session: r.Session, code: exitUsage, text: r.Reply}
}

// await waits for the end of the message.
func (s *single) await(client *turnstile.Client) (session.Outcome, error) {
	ctx := s.ctx
	if s.o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.o.timeout, errTimeout)
		defer cancel()
	}
	var end session.Outcome
	var err error
	s.link.wait()
	defer hintNoWorker(ctx, client, func() {
		// A draining worker without maintenance shows only by its turn.
		if info, err := client.Session(s.o.session).Info(ctx); err == nil && (info.Phase == session.PhaseIdle || info.Phase == session.PhaseParked) {
			s.out.note("enqueue: no worker is running: the message waits until one is started")
		}
	})()
	if s.o.follow {
		end, err = receipt.Follow(ctx, client.Session(s.o.session), s.m.ID, s.o.after, receipt.Shown(s.see))
		switch {
		case s.o.json:
		case err == nil:
			s.teller.End(end)
		default:
			s.teller.Leave()
		}
	} else {
		end, err = client.Session(s.o.session).Wait(ctx, s.m.ID)
	}
	return end, waitError(ctx, err)
}

// waitError is the reason why a wait failed: its context's cause if the context is done. The
// connection's deadline may pass a moment before the context's.
func waitError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (s *single) waitFailed(err error) failure {
	f := failure{session: s.o.session, id: s.m.ID}
	again := fmt.Sprintf("; to wait for it again: %s --id %s --follow --after %s", s.o.call(s.o.session), terminal.Quoted(s.m.ID), cmp.Or(s.seen, "0-0"))
	switch {
	case errors.Is(err, errTimeout):
		f.code, f.text = exitTimeout, s.o.noReply("message "+s.m.ID, s.link)+again
	case s.ctx.Err() != nil:
		f.code, f.text = exitInterrupted, fmt.Sprintf("interrupted; message %s stays", s.m.ID)+again
	case errors.Is(err, session.ErrNotFound):
		f.code, f.text = exitOther, unknownText(s.m.ID)
	default:
		f.code, f.text = exitOther, fmt.Sprintf("%s; message %s stays", redisconn.Explain(err), s.m.ID)+again
	}
	return f
}

// noReply is the failure after --timeout, with the message's state.
func (o options) noReply(message string, link *away) string {
	text := fmt.Sprintf("no reply to %s within %s; ", message, o.timeout)
	if link.maybe() {
		return text + "Redis is unreachable, so its state is unknown"
	}
	return text + "the message stays"
}

// call is the beginning of a command to paste: this program as it was called, with the session. It
// omits a URL with a password.
func (o options) call(key string) string {
	text := "enqueue"
	switch {
	case o.redis == "":
	case redisconn.HasPassword(o.redis):
		text += " --redis URL"
	default:
		text += " --redis " + terminal.Quoted(o.redis)
	}
	return text + " -s " + terminal.Quoted(key)
}

func unknownText(id string) string {
	return fmt.Sprintf("the outcome of message %s is unknown: its result expired, it was deleted, or Redis has lost it", id)
}

// see shows an event.
func (s *single) see(e session.Event) {
	if e.ID != "" {
		s.seen = e.ID
	}
	switch {
	case s.o.json:
		s.out.event(s.o.session, s.m.ID, e, 0)
	case e.Type == session.EventQueued && s.out.onTTY: // the receipt has said it
	default:
		s.teller.See(e)
	}
}

// show shows the end. With --follow the reply has been shown.
func (s *single) show(end session.Outcome) {
	if s.o.json {
		s.out.outcome(end, 0)
		return
	}
	if !s.o.follow {
		s.out.text(end.Reply)
	}
	s.out.endLine()
}
