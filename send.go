package turnstile

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/agents"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

// NoReply as Message.ReplyTo sends the outcome nowhere, even if the session has a destination.
const NoReply = session.NoReply

// Message is a message to send.
type Message struct {
	// ID is unique within its session, and remembered for ClientConfig.RememberIDs. Defaults to a
	// random one that is not remembered: to be able to repeat a Send, take one of NewMessageID.
	ID string

	// Text is the message's text. It is data, even if it begins with a slash; see ParseInput.
	Text        string
	Meta        map[string]string
	Attachments []session.Attachment

	// Request is what a program brings for the agent's model: functions, instructions, settings. If the
	// session's agent takes none, the message fails. Its Mode defaults to session.ModeQueue, and cannot be
	// collect or steer.
	Request *session.ModelRequest

	// Mode is how the message is handled while a turn runs. Defaults to the session's, then the
	// worker's.
	Mode session.Mode

	// After is the ID of the message that this one must directly follow. If another message has run
	// or waits since, Send returns session.ErrNotLast. Every message of the last turn counts as the
	// last one. Delayed messages do not count before they join the queue. After /new or an undo,
	// every After is refused until the next turn. It cannot be used with Delay.
	After string

	// Agent is the name of the agent (docs/agents.md) that the session gets, if it has none yet. If it
	// has another one, Send returns session.ErrOtherAgent. Defaults to the one by the session's key.
	Agent string

	// Delay is how long the message waits before it joins the session's queue, in whole seconds by
	// Redis' clock. Send refuses a negative one.
	Delay time.Duration

	// ExpiresIn is how long the message may wait for its turn, after its arrival or its delay.
	// Defaults to 0: no limit.
	ExpiresIn time.Duration

	// ReplyTo is the destination to which the outcome is delivered (docs/webhooks.md). Defaults to
	// the session's (SetReplyTo), then to ClientConfig.DefaultReplyTo. NoReply means none.
	ReplyTo string

	// ReplyContext is JSON that every delivery includes, for example the chat in which to reply. It
	// has at most 2,048 bytes.
	ReplyContext json.RawMessage

	// ReplyBy is the deadline for delivering the outcome. ReplyWithin is the same deadline, counted
	// from the message's acceptance. Use one of them. Defaults to the destination's max_age.
	ReplyBy     time.Time
	ReplyWithin time.Duration

	// TraceParent is the W3C traceparent that the message's turn belongs to. A repeated Send may
	// have another one. An invalid one is ignored.
	TraceParent string
}

// stored is the message as it is stored.
func (m Message) stored() wire.Message {
	stored := wire.Message{
		ID: m.ID, TraceParent: m.TraceParent, Text: m.Text, Mode: m.Mode, Meta: m.Meta, Attachments: m.Attachments,
		ExpiresIn: wire.Duration(m.ExpiresIn), Request: m.Request,
	}
	if m.Request != nil && m.Mode == "" {
		stored.Mode = session.ModeQueue
	}
	return stored
}

// route is the outcome's destination. Its context is stored without spaces and line breaks.
func (m Message) route() wire.Route {
	r := wire.Route{To: m.ReplyTo, Context: m.ReplyContext, By: m.ReplyBy, Within: m.ReplyWithin}
	var line bytes.Buffer
	if len(r.Context) > 0 && json.Compact(&line, r.Context) == nil {
		r.Context = line.Bytes()
	}
	return r
}

// check makes the checks that need no Redis. fallback is the default destination.
func (m Message) check(limits session.Limits, fallback string) error {
	if m.Delay < 0 {
		return fmt.Errorf("%w delay %s: it is negative", session.ErrInvalid, m.Delay)
	}
	if err := agents.ValidateName(m.Agent); m.Agent != "" && err != nil {
		return err
	}
	if m.After != "" {
		if err := session.ValidateID(m.After); err != nil {
			return err
		}
		if m.Delay > 0 {
			return fmt.Errorf("%w delay: a message that must follow another one cannot be delayed", session.ErrInvalid)
		}
	}
	return errors.Join(wire.ValidateLimits(limits), m.route().Validate(), wire.Route{To: fallback}.Validate(), session.ValidateID(m.ID), m.stored().Validate(limits))
}

// Receipt is the state of a message that was sent.
type Receipt struct {
	Session, ID string
	State       session.MessageState
	Duplicate   bool // the message was sent before

	// Position is the message's place in the session's queue. The running turn is 1. Zero: no turn
	// runs, or the message does not wait.
	Position int

	// At is when a delayed message joins the queue, by Redis' clock.
	At time.Time

	// EventsSince is a time by Redis' clock shortly before the message was stored, so before its
	// events. Zero for a duplicate: its events may be older.
	EventsSince time.Time
}

// NewMessageID returns a random message ID. Send makes one for a message without an ID. Make it
// yourself if you may have to repeat the Send.
func NewMessageID() string { return strings.ToLower(rand.Text()) }

// Send stores a message in the session's queue and notifies the workers. A nil error means that the
// message is stored: it will run, or it did (Receipt.Duplicate).
//
// The error wraps session.ErrRefused if the message was refused: session.ErrInvalid, ErrBusy (a
// turn runs, and the message's mode is session.ModeReject), ErrFull, ErrConflict, ErrNotLast, ErrOtherAgent. It
// wraps session.ErrExpired if the message ran before, and its outcome is no longer kept. It wraps
// only session.ErrUnchanged if nothing was stored for another reason. After any other error the
// message may have been stored: Send it again with the same ID, and it is stored once.
func (s *Session) Send(ctx context.Context, m Message) (Receipt, error) {
	if err := session.ValidateKey(s.key); err != nil {
		return Receipt{}, err
	}
	c, named := s.c, m.ID != ""
	if !named {
		m.ID = NewMessageID()
	}
	fallback := ""
	if c.cfg.DefaultReplyTo != nil {
		fallback = c.cfg.DefaultReplyTo(s.key)
	}
	if err := m.check(c.cfg.Limits, fallback); err != nil {
		return Receipt{}, err
	}
	if err := s.admit(ctx, m.ID); err != nil {
		return Receipt{}, err
	}
	accepted, err := c.sender.Accept(ctx, protocol.Accept{
		Session: s.key, Message: m.stored(), Nonce: rand.Text(), Named: named, Delay: m.Delay,
		Limits: c.cfg.Limits, Route: m.route(), Fallback: fallback, After: m.After, Agent: m.Agent, IdempotencyTTL: c.cfg.RememberIDs,
	})
	switch {
	case errors.Is(err, session.ErrInvalid): // of a size that check does not know; whoever sent it knows no ID
		return Receipt{}, err
	case err != nil:
		return Receipt{}, fmt.Errorf("enqueue message %s of %s: %w", m.ID, s.key, err)
	}
	return s.receipt(m.ID, accepted)
}

// admit refuses a message if too many wait in all sessions. It accepts a message that is stored
// already, and one for a session with an owner: Limits.Queue bounds its queue. It makes a round
// trip only if there is a cap.
func (s *Session) admit(ctx context.Context, id string) error {
	if s.c.cfg.Limits.AllQueues == session.NoLimit {
		return nil
	}
	ok, err := protocol.Admit(ctx, s.c.rdb, s.key, rediskey.TaskID(s.key, id), s.c.cfg.Limits.AllQueues)
	switch {
	case err != nil:
		return fmt.Errorf("count the messages that wait before message %s of %s: %w", id, s.key, err)
	case !ok:
		return s.refusal(id, session.ErrAllQueuesFull)
	}
	return nil
}

func (s *Session) refusal(id string, why error) error {
	return fmt.Errorf("message %s of %s was refused: %w", id, s.key, why)
}

// refusals are the errors for the states with which the script refuses a message.
var refusals = map[string]error{
	"busy": session.ErrBusy, "full": session.ErrFollowupsFull, "line": session.ErrQueueFull, "outbox": session.ErrOutboxFull,
	"conflict": session.ErrConflict, "expired": session.ErrExpired, "not_last": session.ErrNotLast, "agent": session.ErrOtherAgent,
}

// eventsBefore is how much Receipt.EventsSince precedes the message's storage, in ms: the clock of
// a script may be ahead of its events' IDs.
const eventsBefore = 10

// receipt returns the receipt of a message.
func (s *Session) receipt(id string, a protocol.Accepted) (Receipt, error) {
	if a.Unnotified != nil {
		return Receipt{}, fmt.Errorf("notify workers of message %s of %s: %w", id, s.key, a.Unnotified)
	}
	r := Receipt{Session: s.key, ID: id, State: session.MessagePending, Duplicate: a.Duplicate}
	if why := refusals[a.State]; why != nil && !a.Duplicate {
		if a.State == "busy" && a.N > 0 {
			why = fmt.Errorf("%w; its next attempt is at %s, and /stop ends it", why, time.UnixMilli(a.N).UTC().Format(time.TimeOnly+" MST"))
		}
		return Receipt{}, s.refusal(id, why)
	}
	switch {
	case a.State == "queued" || a.State == "ends":
		r.Position = int(a.N)
	case a.State == "scheduled":
		r.State, r.At = session.MessageScheduled, time.UnixMilli(a.N)
	case a.Duplicate && a.State != "idle":
		r.State = session.MessageState(a.State)
	}
	if !a.Duplicate {
		r.EventsSince = time.UnixMilli(a.Before - eventsBefore)
	}
	return r, nil
}
