package turnstile

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/slash"
	"turnstile/pkg/session"
)

// SubmitOption changes one Submit.
type SubmitOption func(*submission)

type submission struct {
	delay    time.Duration
	route    session.Route
	fallback string
	literal  bool
	after    string
}

// Delay makes a message wait for d before it joins the session's line, in whole seconds by Redis'
// clock. If d is negative, Submit returns an error. Defaults to 0.
func Delay(d time.Duration) SubmitOption { return func(s *submission) { s.delay = d } }

// ReplyTo says where the outcome of a message goes, besides whoever waits for it: deliverers post it to
// the route's destination (docs/webhooks.md). Without a destination the session's own counts
// (SetReplyTo), else that of DefaultReplyTo.
func ReplyTo(r session.Route) SubmitOption { return func(s *submission) { s.route = r } }

// DefaultReplyTo names the destination of a message if neither the message nor its session has one.
func DefaultReplyTo(destination string) SubmitOption {
	return func(s *submission) { s.fallback = destination }
}

// compact returns the route with its context without blanks and line breaks, as it is stored.
func compact(r session.Route) session.Route {
	var line bytes.Buffer
	if len(r.Context) > 0 && json.Compact(&line, r.Context) == nil {
		r.Context = line.Bytes()
	}
	return r
}

// Literal makes the text of a message data, whatever it begins with: no slash command is carried
// out, and no slash is removed. It is for texts of which the sender does not know who wrote them.
func Literal() SubmitOption { return func(s *submission) { s.literal = true } }

// After makes Submit refuse a message, with session.ErrNotLast, unless it follows the message with
// that id directly: nothing has run or waits in the session's conversation since. A message that is
// part of the last turn is its last. Delayed messages do not count before they join the line, and
// cannot have this option. Another conversation (/new) has no last message until it has a first one, and
// one whose last turn was undone until it has the next.
func After(id string) SubmitOption { return func(s *submission) { s.after = id } }

// NewMessageID returns a random message id. Submit makes one for a message without an id. A sender
// that may have to repeat a Submit makes it beforehand.
func NewMessageID() string { return strings.ToLower(rand.Text()) }

// Submit stores a message in a session's line and notifies the workers. A nil error means that the
// message is stored, unless the receipt's status is Refused or Answered.
//
// The error wraps session.ErrInvalid if the session's key, the message or an option breaks a rule,
// and session.ErrUnchanged if nothing was stored. After any other error the message may have been
// stored. Submit it again with the same ID: a message with an ID of the caller's is stored once in
// ClientConfig.IdempotencyTTL, and another one with that ID is refused.
//
// A text of one line that begins with a slash command, such as /status, is carried out at once and
// needs no worker: the receipt's status is Answered, also beside an error. /steer TEXT is a message
// with session.ModeSteer. A probably mistyped command, such as /stpo, is not stored: the receipt
// suggests the command. A text that begins with // loses one slash and is a message. Any other text
// that begins with a slash is a message as it is. With Literal every text is.
//
// A command with an ID is carried out at most once in ClientConfig.IdempotencyTTL, and Submit returns
// its receipt again. If the program died meanwhile, or lost Redis' reply, it may have been carried out:
// then the error of a repetition wraps session.ErrExpired.
func (c *Client) Submit(ctx context.Context, sessionKey string, m session.Message, opts ...SubmitOption) (Receipt, error) {
	var s submission
	for _, o := range opts {
		o(&s)
	}
	if err := session.ValidateKey(sessionKey); err != nil {
		return Receipt{}, err
	}
	if s.delay < 0 {
		return Receipt{}, fmt.Errorf("%w delay %s: it is negative", session.ErrInvalid, s.delay)
	}
	if err := errors.Join(s.route.Validate(), session.Route{To: s.fallback}.Validate()); err != nil {
		return Receipt{}, err
	}
	if s.after != "" {
		if err := session.ValidateID(s.after); err != nil {
			return Receipt{}, err
		}
		if s.delay > 0 {
			return Receipt{}, fmt.Errorf("%w delay: a message that must follow another one cannot be delayed", session.ErrInvalid)
		}
	}
	if !s.literal {
		if r, answered, err := c.command(ctx, sessionKey, &m, s.delay); answered || err != nil {
			return r, err
		}
	}
	named := m.ID != ""
	if !named {
		m.ID = NewMessageID()
	}
	if err := errors.Join(session.ValidateID(m.ID), c.cfg.Limits.Validate(m)); err != nil {
		return Receipt{}, err
	}
	if ok, err := c.admit(ctx, sessionKey, m.ID); err != nil {
		return Receipt{}, err
	} else if !ok {
		return Receipt{Session: sessionKey, ID: m.ID, Status: Refused, Reason: reasonMessages}, nil
	}
	accepted, err := c.sender.Accept(ctx, protocol.Accept{
		Session: sessionKey, Message: m, Nonce: rand.Text(), Named: named, Delay: s.delay,
		Limits: c.cfg.Limits, LineCap: c.cfg.LineCap, Route: compact(s.route), Fallback: s.fallback, OutboxCap: c.cfg.OutboxCap, DestinationCap: c.cfg.DestinationCap, After: s.after, IdempotencyTTL: c.cfg.IdempotencyTTL,
	})
	if err != nil {
		return Receipt{}, fmt.Errorf("enqueue message %s of %s: %w", m.ID, sessionKey, err)
	}
	return receipt(Receipt{Session: sessionKey, ID: m.ID, Status: Accepted}, accepted)
}

// command carries a slash command out, or corrects one that is probably mistyped; then it reports
// answered. Otherwise it makes the text what the message says.
func (c *Client) command(ctx context.Context, sessionKey string, m *session.Message, delay time.Duration) (r Receipt, answered bool, err error) {
	if cmd, args, ok := slash.Parse(m.Text); ok {
		switch {
		case delay > 0:
			return Receipt{}, false, fmt.Errorf("%w delay: the command %s is carried out at once; write /%s to send it as a message", session.ErrInvalid, cmd.Name, cmd.Name)
		case !cmd.IsMessage(args):
			run := func() (Receipt, error) {
				r := Receipt{Session: sessionKey, Status: Answered}
				var err error
				r.Reply, r.Invalid, err = cmd.Run(ctx, c.operations(), sessionKey, args)
				return r, err
			}
			if m.ID == "" || cmd.Reads(args) {
				r, err = run()
			} else {
				r, err = c.once(ctx, sessionKey, *m, run)
			}
			return r, true, err
		}
		m.Text, m.Mode = args, session.ModeSteer
	} else if reply, ok := slash.Suggest(m.Text); ok && len(m.Attachments) == 0 {
		return Receipt{Session: sessionKey, Status: Answered, Reply: reply, Invalid: true}, true, nil
	} else if strings.HasPrefix(m.Text, "//") {
		m.Text = m.Text[1:]
	}
	return Receipt{}, false, nil
}

// eventsBefore is how long before a message was stored Receipt.EventsAfter is, in ms: a script may
// see an earlier clock than its events.
const eventsBefore = 10

// once carries out a command that has an id, or returns the receipt of the same command under that id.
func (c *Client) once(ctx context.Context, sessionKey string, m session.Message, run func() (Receipt, error)) (Receipt, error) {
	r := Receipt{Session: sessionKey, Status: Answered}
	if err := session.ValidateID(m.ID); err != nil {
		return r, err
	}
	what, err := c.cfg.Limits.EncodePayload(m)
	if err != nil {
		return r, err
	}
	once := protocol.NewOnce(c.rdb, sessionKey, m.ID, what, c.cfg.IdempotencyTTL)
	stored, begun, err := once.Begin(ctx)
	switch {
	case errors.Is(err, session.ErrConflict):
		return Receipt{Session: sessionKey, ID: m.ID, Status: Refused, Reason: reasonConflict}, nil
	case err != nil:
		return r, fmt.Errorf("carry out command %s of %s: %w", m.ID, sessionKey, err)
	case !begun:
		if err := json.Unmarshal([]byte(stored), &r); err != nil {
			return r, fmt.Errorf("read the result of command %s of %s: %w", m.ID, sessionKey, err)
		}
		return r, nil
	}
	if r, err = run(); err != nil {
		if errors.Is(err, session.ErrUnchanged) {
			_ = once.Free(context.WithoutCancel(ctx)) // otherwise its repetition learns that it may have been carried out
		}
		return r, err
	}
	if r.Invalid { // nothing was changed
		_ = once.Free(context.WithoutCancel(ctx))
		return r, nil
	}
	if data, err := json.Marshal(r); err == nil {
		_ = once.End(context.WithoutCancel(ctx), string(data)) // the same
	}
	return r, nil
}

// receipt fills in the receipt of a message.
func receipt(r Receipt, a protocol.Accepted) (Receipt, error) {
	if a.Unnotified != nil {
		return Receipt{}, fmt.Errorf("notify workers of message %s of %s: %w", r.ID, r.Session, a.Unnotified)
	}
	r.EventsAfter = strconv.FormatInt(a.Before-eventsBefore, 10)
	switch a.State {
	case "queued":
		r.Status, r.Position = Queued, int(a.N)
	case "scheduled":
		r.Status, r.At = Scheduled, time.UnixMilli(a.N)
	case reasonBusy, reasonFull, reasonLine, reasonOutbox, reasonConflict, reasonExpired, reasonNotLast:
		r.Status, r.Reason, r.EventsAfter = Refused, a.State, ""
	}
	if a.Duplicate {
		r.Status, r.State, r.EventsAfter = Duplicate, a.State, ""
		if a.State == "queued" || a.State == "idle" {
			r.State = "pending"
		}
	}
	return r, nil
}
