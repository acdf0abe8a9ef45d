package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"turnstile"
	"turnstile/internal/gateway"
	"turnstile/pkg/session"
)

const (
	// retried is for how long after its end a message is found again by a client that says that it
	// repeats its request.
	retried = time.Minute

	// repeats is how many messages with the same body the gateway tells apart in one session, per
	// IDEMPOTENCY_TTL. Later ones have random ids: a repeated request is carried out twice.
	repeats = 100
)

// bodyID is the message id of a request without an idempotency key.
func bodyID(token, sessionKey string, body []byte) string {
	h := sha256.New()
	h.Write([]byte(token + "\n" + sessionKey + "\n"))
	h.Write(body)
	return "oai-" + hex.EncodeToString(h.Sum(nil))[:32]
}

// target is where a request's message goes.
type target struct {
	place
	named     bool // by an idempotency key
	fresh     bool // the session is made for it
	temporary bool // and erased after it
}

// nth is where the message goes if n others with the same body went there before.
func (t target) nth(n int) place {
	p, suffix := t.place, ""
	switch {
	case n == repeats:
		suffix = "-" + turnstile.NewMessageID()
	case n > 0:
		suffix = "-" + strconv.Itoa(n)
	}
	p.message += suffix
	if t.fresh {
		p.session += suffix
	}
	return p
}

// identify returns the message id of a request, and its session, which is made for it if the request
// has none.
func identify(r *gateway.Request, sessionKey string, data []byte) (t target, err error) {
	key, err := r.IdempotencyKey()
	if err != nil {
		return t, err
	}
	t = target{place: place{sessionKey, key}, named: key != "", fresh: sessionKey == ""}
	if !t.named {
		t.message = bodyID(r.Token.Name, sessionKey, data)
	}
	if t.fresh {
		name := []byte(key)
		if !t.named {
			name = data
		}
		if t.session, err = r.Token.NewSession("r" + bodyID(r.Token.Name, "", name)[len("oai-"):]); err != nil {
			return t, err
		}
	}
	if err := session.ValidateKey(t.session); err != nil {
		return t, refuse("conversation", "%s.", err)
	}
	return t, nil
}

// submit stores a message. The SDKs repeat requests and send no key, so without one a message that
// waits or runs is that of the same body, and so is one that has just ended if the client says that
// it repeats its request. Otherwise the same words are another message.
func (a *API) submit(r *gateway.Request, to target, m session.Message, opts ...turnstile.SubmitOption) (turnstile.Receipt, error) {
	opts = append(opts, turnstile.Literal())
	opts = opts[:len(opts):len(opts)]
	m.TraceParent = r.TraceParent()
	for n := 0; ; n++ {
		at := to.nth(n)
		if err := r.See(at.session); err != nil {
			return turnstile.Receipt{}, err
		}
		if to.temporary {
			if err := a.admin.MakeTemporary(r.Work(), at.session); err != nil {
				return turnstile.Receipt{}, err
			}
		}
		m.ID = at.message
		receipt, err := a.client.Submit(r.Work(), at.session, m, append(opts, r.DefaultReplyTo(at.session))...)
		if err == nil {
			err = receipt.Err()
		}
		switch {
		case errors.Is(err, session.ErrNotLast):
			return receipt, refuse("previous_response_id", "The conversation's last response is another one: a response cannot be continued twice, after it was undone, or after the conversation was begun anew.")
		case to.named:
			return receipt, err
		case errors.Is(err, session.ErrExpired), errors.Is(err, session.ErrConflict):
		case err != nil:
			return receipt, err
		case receipt.Status != turnstile.Duplicate || !over(receipt.State):
			return receipt, nil
		case a.repeated(r, receipt, to.nth(n+1)):
			return receipt, nil
		}
	}
}

// over reports whether a duplicate's message has ended.
func over(state string) bool { return state == "completed" || state == "archived" || state == "gone" }

// repeated reports whether a request repeats one whose message has just ended. If there is a next
// message with the same body, the request repeats a later one.
func (a *API) repeated(r *gateway.Request, receipt turnstile.Receipt, next place) bool {
	if n, err := strconv.Atoi(r.Header.Get("X-Stainless-Retry-Count")); err != nil || n < 1 {
		return false
	}
	m, err := a.client.Message(r.Work(), receipt.Session, receipt.ID)
	if err != nil || time.Since(m.Ended) > retried {
		return false
	}
	_, err = a.client.Message(r.Work(), next.session, next.message)
	return err != nil
}
