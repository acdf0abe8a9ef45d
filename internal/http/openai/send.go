package openai

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"time"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/pkg/session"
)

// retried is how long after its end a message is found by a client that repeats its request.
const retried = time.Minute

// Bodies stores the last message of each body that was sent to a session more than once.
type Bodies interface {
	// Last returns the message ID that Sent stored, "" if there is none, and Redis' time.
	Last(ctx context.Context, sessionKey, body string) (id string, now time.Time, err error)

	// Sent stores the ID of the body's last message.
	Sent(ctx context.Context, sessionKey, body, id string) error

	// Now returns Redis' time.
	Now(ctx context.Context) (time.Time, error)
}

// The kinds of sessions made for a request. A key has its kind after the token's prefix, so a key of
// one API names no session of the other.
const (
	responseSession = "r"
	chatSession     = "c"
	newConversation = "n"
)

// hashed returns a name for content that a token sends to a session. It differs between tokens.
func hashed(token, sessionKey string, what []byte) string {
	h := sha256.New()
	h.Write([]byte(token + "\n" + sessionKey + "\n"))
	h.Write(what)
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// target is where a request's message goes.
type target struct {
	place
	after     string // the message must follow this one
	byBody    bool   // the message's ID is made of the body
	temporary bool   // the session is only for the message, and erased after it
	streamed  bool   // the response is
	leaves    bool   // the message is cancelled when the client goes away
}

// identify returns the session and the message ID of a request. A request without a session gets a new
// one: named by its idempotency key, else at random, so that no two users of a token share it.
func identify(r *gateway.Request, kind, sessionKey string, data []byte) (t target, err error) {
	key, err := r.IdempotencyKey()
	if err != nil {
		return t, err
	}
	t.place = place{sessionKey, key}
	if sessionKey == "" {
		name := turnstile.NewMessageID()
		if key != "" {
			name = hashed(r.Token.Name, "", []byte(key))
		}
		if t.session, err = r.Token.NewSession(kind + name); err != nil {
			return t, err
		}
	}
	if err := session.ValidateKey(t.session); err != nil {
		return t, refuse("conversation", "%s.", err)
	}
	if t.leaves, err = wantsLeave(r, sessionKey == ""); err != nil {
		return t, err
	}
	switch {
	case key != "":
	case sessionKey == "":
		t.message = turnstile.NewMessageID()
	default:
		t.message, t.byBody = "oai-"+hashed(r.Token.Name, sessionKey, data), true
	}
	return t, nil
}

// send stores a message. OpenAI's SDKs repeat requests without a key, but say that they do: then
// the last message with the same body is meant. Otherwise the same words are another message. The
// first message of a body has an ID made of the body, so that most messages need no extra key in
// Redis.
func (a *API) send(r *gateway.Request, to target, m turnstile.Message) (turnstile.Receipt, error) {
	if err := r.See(to.session); err != nil {
		return turnstile.Receipt{}, err
	}
	if to.streamed {
		if err := r.HoldStream(); err != nil {
			return turnstile.Receipt{}, err
		}
	}
	m.ID, m.After, m.TraceParent = to.message, to.after, r.TraceParent()
	if to.temporary { // its session ends with the response
		m.ReplyTo = turnstile.NoReply
		if err := a.kept.MakeTemporary(r.Work(), to.session); err != nil {
			return turnstile.Receipt{}, err
		}
	}
	if !to.byBody {
		return a.store(r, to.session, m)
	}
	repeats := saysItRepeats(r)
	var now time.Time
	if repeats {
		last, at, err := a.bodies.Last(r.Work(), to.session, to.message)
		if err != nil {
			return turnstile.Receipt{}, err
		}
		if now = at; last != "" {
			m.ID = last
		}
	}
	receipt, err := a.store(r, to.session, m)
	switch {
	case errors.Is(err, session.ErrExpired), errors.Is(err, session.ErrConflict):
	case err != nil || !receipt.Duplicate:
		return receipt, err
	case repeats && a.recent(r, receipt, now):
		return receipt, nil
	}
	m.ID = turnstile.NewMessageID()
	if err := a.bodies.Sent(r.Work(), to.session, to.message, m.ID); err != nil {
		return turnstile.Receipt{}, err
	}
	return a.store(r, to.session, m)
}

// store stores a message with its ID.
func (a *API) store(r *gateway.Request, sessionKey string, m turnstile.Message) (turnstile.Receipt, error) {
	receipt, err := a.client.Session(sessionKey).Send(r.Work(), m)
	if errors.Is(err, session.ErrNotLast) {
		receipt, err = a.fork(r, sessionKey, m)
	}
	if errors.Is(err, session.ErrOtherAgent) {
		err = refuse("model", "The conversation has another agent than %s: begin another conversation for it.", m.Agent)
	}
	return receipt, err
}

// fork stores a message that follows another response than the last one, if it has results of open calls: the AI SDK
// names the response before the one with the calls, and parallel calls may be answered one by one. Otherwise it is refused.
func (a *API) fork(r *gateway.Request, sessionKey string, m turnstile.Message) (receipt turnstile.Receipt, err error) {
	if m.Request != nil && len(m.Request.Results) > 0 {
		open, err := a.openCalls(r.Work(), sessionKey)
		if err != nil {
			return receipt, err
		}
		if slices.ContainsFunc(m.Request.Results, func(result session.CallResult) bool { return open[result.CallID] > 0 }) {
			m.After = ""
			return a.client.Session(sessionKey).Send(r.Work(), m)
		}
	}
	last, err := a.kept.LastMessage(r.Work(), sessionKey)
	switch {
	case err != nil:
		return receipt, err
	case last == "":
		return receipt, refuse("previous_response_id", "The response was undone, or the conversation was begun anew: send the conversation %s in place of previous_response_id.", sessionKey)
	}
	return receipt, refuse("previous_response_id", "A response cannot be continued twice, and the conversation's last one is %s: continue that one, or send the conversation %s in place of previous_response_id.",
		place{sessionKey, last}.id(), sessionKey)
}

// saysItRepeats reports whether a client says that it repeats a request.
func saysItRepeats(r *gateway.Request) bool {
	n, err := strconv.Atoi(r.Header.Get("X-Stainless-Retry-Count"))
	return err == nil && n > 0
}

// recent reports whether the message of a duplicate waits, runs or just ended.
func (a *API) recent(r *gateway.Request, receipt turnstile.Receipt, now time.Time) bool {
	switch receipt.State {
	case session.MessageCompleted, session.MessageArchived, session.MessageGone:
	default:
		return true
	}
	m, err := a.client.Session(receipt.Session).Message(r.Work(), receipt.ID)
	return err == nil && now.Sub(m.EndedAt) <= retried
}
