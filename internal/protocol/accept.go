package protocol

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/protocol/wire"
	"turnstile/internal/redis/redisconn"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// senderStream are the limits of the event stream for events of senders, which do not know
// Config.EventsCap. The cap bounds the stream of a session without an owner; the owner's next
// event trims the stream to EventsCap.
var senderStream = scripts.Stream{EventsCap: 100_000}

// Accept stores a message in a session's queue, unless there is one with its ID, and notifies the
// session's owner. One script stores the message with all that belongs to it, or nothing.
// lua/accept.lua.
type Accept struct {
	Session string
	Message wire.Message
	Nonce   string        // of this call, in the task's header: a repetition recognizes its own task
	Named   bool          // the sender chose the message's ID
	Delay   time.Duration // how long the message waits before it joins the queue
	Limits  session.Limits

	// Route is where the outcome goes. Defaults to the session's destination, then to Fallback,
	// then to none.
	Route    wire.Route
	Fallback string

	// After is the ID of the message that this one must directly follow. Empty: any or none.
	After string

	// Agent is the agent that the session gets with the message. Empty: the one by its key.
	Agent string

	// IdempotencyTTL is how long the ID of a Named message is remembered: another message with it
	// is a conflict, and the same one is never carried out again.
	IdempotencyTTL time.Duration
}

// Accepted is the result of Accept.
type Accepted struct {
	Now       int64 // Redis' clock, ms
	Before    int64 // the clock before the first attempt, ms
	State     string
	N         int64
	Duplicate bool // another call has stored a message with this ID

	// Unnotified is why the workers may not know of the message yet.
	Unnotified error
}

// acceptance is a message on its way to Redis.
type acceptance struct {
	session string
	named   bool // by its sender
	call    *script.Call
	full    func() *script.Call
	result  Accepted
}

// encode returns a call of the fast path if that can accept the message, else of the full path.
// full are destinations that have reached their cap.
func (a Accept) encode(full []string) (*acceptance, error) {
	payload, err := a.Message.Encode(a.Limits)
	if err != nil {
		return nil, err
	}
	entry, err := followupEntry(a.Message)
	if err != nil {
		return nil, err
	}
	hash, after := "", ""
	if a.After != "" {
		after = rediskey.TaskID(a.Session, a.After)
	}
	if a.Named {
		hash = bodyHash(payload, a.Message.Mode, a.Route, a.After, a.Agent)
	}
	k := scripts.KeysOf(a.Session, "", time.Now())
	idem := k.Idem(a.Message.ID)
	fast := scripts.AcceptFastArgs{
		Task: k.TaskPrefix(), Session: a.Session, ID: rediskey.TaskID(a.Session, a.Message.ID),
		Msg:   string(encodeTask(a.Session, a.Message.ID, payload, a.Nonce, wire.TraceParent(a.Message.TraceParent))),
		Nonce: a.Nonce, Mode: string(a.Message.Mode), LineCap: int64(a.Limits.Queue), To: a.Route.To,
		Hash: hash, IdemTTL: max(a.IdempotencyTTL.Milliseconds(), 1), // Redis refuses 0, but only after the first write
	}
	m := &acceptance{session: a.Session, named: a.Named, full: func() *script.Call {
		return scripts.Accept.Call(scripts.AcceptKeys(k, idem), scripts.AcceptArgs{
			Prefixes: scripts.PrefixesOf(a.Session), Session: fast.Session, ID: fast.ID, Msg: fast.Msg, Nonce: fast.Nonce, Mode: fast.Mode,
			LineCap: fast.LineCap, To: fast.To, Hash: fast.Hash, IdemTTL: fast.IdemTTL,
			Stream: senderStream, Longest: TaskMost(a.Limits), Delay: a.Delay.Milliseconds(), Followup: entry, Fallback: a.Fallback,
			Context: string(a.Route.Context), DeliverBy: unixMilli(a.Route.By), Lasts: a.Route.Within.Milliseconds(),
			OutboxCap: int64(a.Limits.Outbox), After: after, Agent: a.Agent, Full: full,
		})
	}}
	if a.Delay == 0 && after == "" && a.Agent == "" && a.Route.Within == 0 && a.Route.By.IsZero() && (a.Route.To == session.NoReply || a.Route.To == "" && a.Fallback == "") {
		m.call = scripts.AcceptFast.Call(scripts.AcceptFastKeys(k, idem), fast)
	} else {
		m.call = m.full()
	}
	return m, nil
}

// unixMilli returns a time in ms, at least 1, and 0 for none.
func unixMilli(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return max(at.UnixMilli(), 1)
}

// bodyHash is a hash of a message's payload, mode, route, After and Agent, without the route's deadline. A
// payload omits some modes.
func bodyHash(payload []byte, mode session.Mode, route wire.Route, after, agent string) string {
	h := sha256.New()
	h.Write(payload)
	h.Write([]byte("\n" + mode))
	if route.To != "" || len(route.Context) > 0 {
		h.Write([]byte("\n" + route.To + "\n"))
		h.Write(route.Context)
	}
	if after != "" {
		h.Write([]byte("\x00" + after))
	}
	if agent != "" {
		h.Write([]byte("\x01" + agent))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func followupEntry(m wire.Message) (string, error) {
	text, err := json.Marshal(struct {
		ID   string `json:"id"`
		Text string `json:"text"`
	}{m.ID, m.Text})
	if err != nil {
		return "", fmt.Errorf("encode follow-up: %w", err)
	}
	return string(text), nil
}

// Admit reports whether a message may wait, if all sessions together may have most waiting
// messages. A message for a session with an owner, or one that is stored already, may always wait.
// lua/admit.lua.
func Admit(ctx context.Context, rdb redis.UniversalClient, sessionKey, taskID string, most int) (ok bool, err error) {
	k := rediskey.For(sessionKey)
	call := scripts.Admit.Call([]string{rediskey.Waiting}, scripts.AdmitArgs{Most: int64(most)})
	var owned, known *redis.IntCmd
	err = script.Pipeline(ctx, rdb, []*script.Call{call}, func(p redis.Pipeliner) {
		owned, known = p.Exists(ctx, k.Sentinel()), p.Exists(ctx, k.Task(taskID))
	})
	if err == nil {
		err = call.Err
	}
	if err != nil {
		return false, Unchanged(err, true)
	}
	return scripts.Admit.Result(call).May || owned.Val() > 0 || known.Val() > 0, nil
}

type unchangedError struct{ error }

func (e unchangedError) Unwrap() error        { return e.error }
func (e unchangedError) Is(target error) bool { return target == session.ErrUnchanged }

// Unchanged marks the error of a call's first change as session.ErrUnchanged if the error, or
// surely, says that nothing was changed.
func Unchanged(err error, surely bool) error {
	if err != nil && (surely || redisconn.Unchanged(err)) {
		return unchangedError{err}
	}
	return err
}
