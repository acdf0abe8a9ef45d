package turnstile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/slash"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// ReceiptStatus is what became of a message at once.
type ReceiptStatus string

// The answers to a message.
const (
	Accepted  ReceiptStatus = "accepted"  // stored, and no turn is running
	Queued    ReceiptStatus = "queued"    // stored behind the running turn; see Position
	Scheduled ReceiptStatus = "scheduled" // stored for later; see At
	Duplicate ReceiptStatus = "duplicate" // a message with this id was there already; see State
	Refused   ReceiptStatus = "refused"   // not stored; see Reason
	Answered  ReceiptStatus = "answered"  // a command: see Reply
)

// Receipt is the answer to Submit.
type Receipt struct {
	Session string        `json:"session"`
	ID      string        `json:"id,omitempty"`
	Status  ReceiptStatus `json:"status"`

	// Position in the session's line, from 1, the running turn counted.
	Position int `json:"position,omitempty"`

	// At is when a scheduled message is due.
	At time.Time `json:"at,omitzero"`

	// State is a duplicate's state: pending, scheduled, running, completed,
	// archived or gone.
	State string `json:"state,omitempty"`

	// Reason is why a message was refused, see Err.
	Reason string `json:"reason,omitempty"`

	// Reply is a command's answer. Invalid: it says what is wrong with what was
	// written behind the command, which was not carried out.
	Reply   string `json:"reply,omitempty"`
	Invalid bool   `json:"invalid,omitempty"`
}

// Client puts messages into sessions and tells what became of them. It is safe
// for concurrent use.
type Client struct {
	rdb   redis.UniversalClient
	cfg   ClientConfig
	tasks *protocol.Enqueuer
	waits *waits
	admin *admin.Client
}

// ClientConfig is what a Client accepts. Zero values mean the defaults. Workers have
// limits of their own, so give both the same.
type ClientConfig struct {
	// Limits bound one message.
	Limits session.Limits

	// LineCap is how many messages may wait in one session, whether a turn runs or not.
	// At most half of them, rounded up, may be delayed ones. Defaults to 10,000.
	LineCap int

	// MessagesCap is how many messages may wait in all sessions together. The workers
	// count them every 20 s. 0: as many as come.
	MessagesCap int
}

// NewClient makes a client with the default limits that shares rdb, which stays the
// caller's to close.
func NewClient(rdb redis.UniversalClient) *Client { return NewClientWith(rdb, ClientConfig{}) }

// NewClientWith is NewClient with other limits.
func NewClientWith(rdb redis.UniversalClient, cfg ClientConfig) *Client {
	cfg.Limits = cfg.Limits.WithDefaults()
	if cfg.LineCap == 0 {
		cfg.LineCap = protocol.DefaultLineCap
	}
	return &Client{rdb: rdb, cfg: cfg, tasks: protocol.NewEnqueuer(rdb, cfg.Limits), waits: newWaits(rdb), admin: admin.New(rdb, admin.Config{Limits: cfg.Limits, LineCap: cfg.LineCap})}
}

// SubmitOption changes one Submit.
type SubmitOption func(*submission)

type submission struct{ delay time.Duration }

// Delay has the message wait before it joins the line. It is measured by the
// sender's clock, and asynq keeps it in whole seconds.
func Delay(d time.Duration) SubmitOption { return func(s *submission) { s.delay = d } }

// Submit puts a message into a session and tells the workers. A message without
// an id is given one. When it returns without an error the message is stored,
// unless the receipt says that it was refused, answered or a duplicate.
//
// On an error that is neither session.ErrInvalid nor ErrUnchanged the message may or
// may not have been stored: submit it again under the same id, which is safe. The
// receipt of a command that failed has the status Answered, too.
//
// A one-line text that begins with a known command, as /status, is carried out at
// once: no queue, no sentinel. A text that begins with // loses one slash and is
// a message.
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
		return Receipt{Session: sessionKey, ID: m.ID, Status: Refused, Reason: ReasonMessages}, nil
	}
	nonce := rand.Text()
	known, err := c.tasks.Enqueue(ctx, sessionKey, m, nonce, s.delay)
	if err != nil {
		return Receipt{}, err
	}
	return c.notify(ctx, sessionKey, m, nonce, known)
}

// NewMessageID makes an id for a message that has none.
func NewMessageID() string { return strings.ToLower(rand.Text()) }

// notify tells the session's owner, or the workers if there is none.
func (c *Client) notify(ctx context.Context, sessionKey string, m session.Message, nonce string, known bool) (Receipt, error) {
	told, err := protocol.Notify{
		Session: sessionKey, Message: m, Nonce: nonce, Known: known, Limits: c.cfg.Limits, LineCap: c.cfg.LineCap,
	}.Do(ctx, c.rdb)
	if err != nil {
		return Receipt{}, fmt.Errorf("announce message %s of %s: %w", m.ID, sessionKey, err)
	}
	now, state, n := told.Now, told.State, told.N
	c.tasks.Told(now)
	r := Receipt{Session: sessionKey, ID: m.ID, Status: Accepted}
	switch state {
	case "queued":
		r.Status, r.Position = Queued, int(n)
	case "idle":
		err = protocol.Wake(ctx, c.rdb, now, protocol.ClaimGrace, protocol.WakeUp{Session: sessionKey, At: n})
	case "scheduled":
		r.Status, r.At = Scheduled, time.UnixMilli(n)
		err = protocol.Wake(ctx, c.rdb, now, protocol.ClaimGrace, protocol.WakeUp{Session: sessionKey, At: n})
	case ReasonBusy, ReasonFull, ReasonLine:
		r.Status, r.Reason = Refused, state
	}
	if err != nil {
		return Receipt{}, fmt.Errorf("announce message %s of %s: %w", m.ID, sessionKey, err)
	}
	// A conflict with a task that carries this call's own nonce is go-redis
	// repeating a command whose reply was lost.
	if known && !told.Own {
		r.Status, r.State = Duplicate, state
		if state == "queued" || state == "idle" {
			r.State = "pending"
		}
	}
	return r, nil
}
