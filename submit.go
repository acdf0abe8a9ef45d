package turnstile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/slash"
	"turnstile/pkg/session"
)

// SubmitOption changes one Submit.
type SubmitOption func(*submission)

type submission struct{ delay time.Duration }

// Delay makes a message wait for d before it joins the session's line, in whole seconds by the
// sender's clock. If d is negative, Submit returns an error. Defaults to 0.
func Delay(d time.Duration) SubmitOption { return func(s *submission) { s.delay = d } }

// NewMessageID returns a random message id. Submit makes one for a message without an id. A sender
// that may have to repeat a Submit makes it beforehand.
func NewMessageID() string { return strings.ToLower(rand.Text()) }

// Submit stores a message in a session's line and notifies the workers. A nil error means that the
// message is stored, unless the receipt's status is Refused or Answered.
//
// The error wraps session.ErrInvalid if the session's key, the message or an option breaks a rule,
// and session.ErrUnchanged if nothing was stored. After any other error the message may have been
// stored. Submit it again with the same ID: a message is stored once while its result is kept.
//
// A text of one line that begins with a slash command, such as /status, is carried out at once and
// needs no worker: the receipt's status is Answered, also beside an error. /steer TEXT is a message
// with session.ModeSteer. A probably mistyped command, such as /stpo, is not stored: the receipt
// suggests the command. A text that begins with // loses one slash and is a message. Any other text
// that begins with a slash is a message as it is.
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
	if cmd, args, ok := slash.Parse(m.Text); ok {
		switch {
		case s.delay > 0:
			return Receipt{}, fmt.Errorf("%w delay: the command %s is carried out at once; write /%s to send it as a message", session.ErrInvalid, cmd.Name, cmd.Name)
		case !cmd.IsMessage(args):
			r := Receipt{Session: sessionKey, Status: Answered}
			var err error
			r.Reply, r.Invalid, err = cmd.Run(ctx, c.operations(), sessionKey, args)
			return r, err
		}
		m.Text, m.Mode = args, session.ModeSteer
	} else if reply, ok := slash.Suggest(m.Text); ok && len(m.Attachments) == 0 {
		return Receipt{Session: sessionKey, Status: Answered, Reply: reply, Invalid: true}, nil
	} else if strings.HasPrefix(m.Text, "//") {
		m.Text = m.Text[1:]
	}
	if m.ID == "" {
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
	nonce := rand.Text()
	known, err := c.tasks.Enqueue(ctx, sessionKey, m, nonce, s.delay)
	if err != nil {
		return Receipt{}, err
	}
	return c.notify(ctx, sessionKey, m, nonce, known)
}

// notify notifies the session's owner of a stored message, or wakes the session if it has none.
func (c *Client) notify(ctx context.Context, sessionKey string, m session.Message, nonce string, known bool) (Receipt, error) {
	found, err := protocol.Notify{
		Session: sessionKey, Message: m, Nonce: nonce, Known: known, Limits: c.cfg.Limits, LineCap: c.cfg.LineCap,
	}.Do(ctx, c.rdb)
	if err != nil {
		return Receipt{}, fmt.Errorf("notify workers of message %s of %s: %w", m.ID, sessionKey, err)
	}
	now, state, n := found.Now, found.State, found.N
	c.tasks.SetClock(now)
	r := Receipt{Session: sessionKey, ID: m.ID, Status: Accepted}
	switch state {
	case "queued":
		r.Status, r.Position = Queued, int(n)
	case "idle":
		err = protocol.Wake(ctx, c.rdb, now, protocol.ClaimGrace, protocol.WakeUp{Session: sessionKey, At: n})
	case "scheduled":
		r.Status, r.At = Scheduled, time.UnixMilli(n)
		err = protocol.Wake(ctx, c.rdb, now, protocol.ClaimGrace, protocol.WakeUp{Session: sessionKey, At: n})
	case reasonBusy, reasonFull, reasonLine:
		r.Status, r.Reason = Refused, state
	}
	if err != nil {
		return Receipt{}, fmt.Errorf("notify workers of message %s of %s: %w", m.ID, sessionKey, err)
	}
	// If the task has this call's own nonce, it is no duplicate: go-redis repeated a command whose
	// reply was lost.
	if known && !found.Own {
		r.Status, r.State = Duplicate, state
		if state == "queued" || state == "idle" {
			r.State = "pending"
		}
	}
	return r, nil
}
