package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"turnstile/internal/console"
	"turnstile/internal/redisconn"
	"turnstile/pkg/session"
	"turnstile/pkg/sessionqueue"
)

// errTimeout is the cause of a context whose --timeout is over.
var errTimeout = errors.New("no answer in time")

// single puts one message in.
type single struct {
	ctx context.Context
	o   options
	m   session.Message
	out *output

	teller console.Teller // of --follow
	seen   string         // the id of the last event
}

func newSingle(ctx context.Context, o options, m session.Message, out *output) *single {
	return &single{
		ctx: ctx, o: o, m: m, out: out, seen: o.after,
		teller: console.Teller{Story: newStory(o.session, m.ID), Screen: out.screen},
	}
}

func (s *single) run(client *sessionqueue.Client, conn io.Closer) (int, error) {
	// Closing the connection is what ends a read at once.
	defer context.AfterFunc(s.ctx, func() { _ = conn.Close() })()
	if s.o.after == "" {
		if over, err := s.submit(client); over || err != nil {
			return exitOK, err
		}
	}
	end, err := s.await(client)
	if err != nil {
		return 0, s.waitFailed(err)
	}
	s.show(end)
	if end.Status != sessionqueue.StatusDone {
		return 0, failure{code: exitEnded, text: endText(end), said: true}
	}
	return exitOK, nil
}

// submit puts the message in; over says that there is nothing to wait for.
func (s *single) submit(client *sessionqueue.Client) (over bool, err error) {
	r, err := client.Submit(s.ctx, s.o.session, s.m, delays(s.o.in)...)
	if err != nil {
		return true, s.submitFailed(err)
	}
	if s.o.json {
		s.out.receipt(r, 0)
	}
	switch {
	case r.Status == sessionqueue.Refused:
		return true, failure{code: exitRefused, text: refusal(r), said: true}
	case r.Status == sessionqueue.Answered:
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

func delays(in time.Duration) []sessionqueue.SubmitOption {
	if in == 0 {
		return nil
	}
	return []sessionqueue.SubmitOption{sessionqueue.Delay(in)}
}

// submitFailed tells what is known of a message whose Submit failed.
func (s *single) submitFailed(err error) failure {
	f := failure{session: s.o.session, id: s.m.ID}
	switch {
	case errors.Is(err, session.ErrInvalid):
		f.code, f.text = exitUsage, err.Error()
	case s.ctx.Err() != nil:
		f.code = exitInterrupted
		f.text = fmt.Sprintf("interrupted before Redis answered; whether the message was stored is not known: repeat it with --id %s, which is safe", s.m.ID)
	default:
		f.code = exitOther
		f.text = fmt.Sprintf("%s; whether the message was stored is not known: repeat it with --id %s, which is safe", redisconn.Explain(err), s.m.ID)
	}
	return f
}

// await waits for the end of the message.
func (s *single) await(client *sessionqueue.Client) (sessionqueue.Outcome, error) {
	ctx := s.ctx
	if s.o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.o.timeout, errTimeout)
		defer cancel()
	}
	var end sessionqueue.Outcome
	var err error
	if s.o.follow {
		end, err = client.FollowFrom(ctx, s.o.session, s.m.ID, s.o.after, s.see)
		switch {
		case s.o.json:
		case err == nil:
			s.teller.End(end)
		default:
			s.teller.Leave()
		}
	} else {
		end, err = client.Wait(ctx, s.o.session, s.m.ID)
	}
	return end, waitError(ctx, err)
}

// waitError is why a wait failed, which is its context's cause if that has ended.
// The connection's deadline may strike a moment before the context's own.
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
	again := fmt.Sprintf("; to wait for it again: enqueue -s %s --id %s %s", console.Quoted(s.o.session), console.Quoted(s.m.ID), s.howToGoOn())
	switch {
	case errors.Is(err, errTimeout):
		f.code, f.text = exitTimeout, fmt.Sprintf("no answer to message %s within %s; it goes on", s.m.ID, s.o.timeout)+again
	case s.ctx.Err() != nil:
		f.code, f.text = exitInterrupted, fmt.Sprintf("interrupted; message %s stays", s.m.ID)+again
	case errors.Is(err, sessionqueue.ErrUnknown):
		f.code, f.text = exitOther, unknownText(s.m.ID)
	default:
		f.code, f.text = exitOther, fmt.Sprintf("%s; message %s stays", redisconn.Explain(err), s.m.ID)+again
	}
	return f
}

// howToGoOn is the end of a command that waits from where this one has ended.
func (s *single) howToGoOn() string {
	switch {
	case !s.o.follow:
		return "--wait TEXT"
	case s.seen == "":
		return "--follow TEXT"
	}
	return "--follow --after " + s.seen
}

func unknownText(id string) string {
	return fmt.Sprintf("how message %s ended is not known: its result is not kept any more, or it was deleted", id)
}

// see shows an event as it comes.
func (s *single) see(e sessionqueue.Event) {
	if e.ID != "" {
		s.seen = e.ID
	}
	switch {
	case s.o.json:
		s.out.event(s.o.session, s.m.ID, e, 0)
	case e.Type == sessionqueue.EventQueued && s.out.onTTY: // the receipt has told
	default:
		s.teller.See(e)
	}
}

// show shows the end. What --follow has to show was shown.
func (s *single) show(end sessionqueue.Outcome) {
	if s.o.json {
		s.out.outcome(end, 0)
		return
	}
	if !s.o.follow {
		s.out.text(end.Reply)
	}
	s.out.endLine()
}
