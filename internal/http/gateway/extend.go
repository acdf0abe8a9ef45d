package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"turnstile"
)

// Helpers, beyond Route and Request, for packages that add routes.

// IdempotencyKey returns the message ID for the request's Idempotency-Key, "" without one.
func (r *Request) IdempotencyKey() (string, error) { return idempotencyKey(r) }

// See sets the request's session. It fails if the token may not see it.
func (r *Request) See(sessionKey string) error {
	if !r.Token.Sees(sessionKey) {
		return unknownSession(sessionKey)
	}
	r.Session = sessionKey
	return nil
}

// Worded gives a message that only has files a text: the files' names. Workers take no message
// without a text.
func Worded(m turnstile.Message) turnstile.Message {
	if strings.TrimSpace(m.Text) != "" || len(m.Attachments) == 0 {
		return m
	}
	names := make([]string, 0, len(m.Attachments))
	for _, a := range m.Attachments {
		names = append(names, a.Name)
	}
	if m.Text = "[" + strings.Join(names, ", ") + "]"; len(m.Text) > mostNames {
		m.Text = fmt.Sprintf("[%d files]", len(names))
	}
	return m
}

// mostNames bounds the length of that text.
const mostNames = 1000

// NewSession returns a new session key of the token.
func (t Token) NewSession(name string) (string, error) {
	key := t.prefix + name
	if !t.Sees(key) {
		return "", Fail(Forbidden, `The token %s may not make sessions: its entry has no "new".`, t.Name)
	}
	return key, nil
}

// Waiting is the context of a wait: it ends when the client goes away, when the gateway drains, and when
// the token was revoked. Interrupted returns the problem of its end.
func (r *Request) Waiting() (context.Context, context.CancelFunc) {
	r.freeBody()
	r.made()
	g := r.gateway
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(g.ending, func() { cancel(errDraining) })
	forget := g.waits.add(r, cancel)
	if err := g.lostBy(r); err != nil { // the tokens were reloaded before this wait was registered
		cancel(err)
	}
	return ctx, func() {
		forget()
		stop()
		cancel(nil)
	}
}

// WhenGone calls f if the client goes away before a call of done, unless the gateway drains: then the gateway may have
// ended the connection.
func (r *Request) WhenGone(f func(ctx context.Context) error) (done func()) {
	g, id := r.gateway, r.ID
	stop := context.AfterFunc(r.Context(), func() {
		ctx, cancel := r.More()
		defer cancel()
		if g.Draining() {
			return
		}
		if err := f(ctx); err != nil {
			g.log.Warn("the client went away, and its message was not cancelled", "request_id", id, "error", err)
		}
	})
	return func() { stop() }
}

// Interrupted returns the problem of a wait or stream that the gateway ended, and otherwise err.
func Interrupted(err error) error {
	switch {
	case errors.Is(err, errDraining):
		return because(err, Fail(Draining, "The message is stored and will run. Repeat the request with the same Idempotency-Key to find it; without a key the repetition may be a second message."))
	case errors.Is(err, errRevoked), errors.Is(err, errNarrowed):
		return because(err, Fail(Unauthorized, "The token was changed. Stored messages are kept."))
	}
	return err
}

// HoldStream counts the stream that the request will open, or fails if there are too many. A route that
// stores something calls it before that, because a client repeats its request after this failure.
func (r *Request) HoldStream() error {
	g := r.gateway
	if r.stream != nil {
		return nil
	}
	var ok bool
	if r.stream, ok = g.limits.open(r.Token.Name); !ok {
		return Fail(TooManyStreams, "The token %s may have %d streams open.", r.Token.Name, g.config.Streams)
	}
	return nil
}

// Stream responds with an event stream, which counts as one of the token's. serve writes it with
// send until it returns or ctx ends: the client went away or does not read, the token was revoked,
// or the gateway drains. If serve returns an error, the response is broken off, so that no client
// takes a part for the whole.
func (r *Request) Stream(w http.ResponseWriter, serve func(ctx context.Context, send func(text string) error) error) error {
	g := r.gateway
	ctx, s, err := g.openStream(r.Context(), r)
	if err != nil {
		return err
	}
	defer s.close()
	streamHeader(w.Header())
	e := newEventWriter(newResponse(w), s)
	e.holds = followHolds
	e.comment = ":\n" // the OpenAI SDK for Go takes an empty line after a comment for an event
	if e.send([]byte(e.comment)) != nil {
		return nil
	}
	e.beat()
	defer e.stop()
	if err := serve(ctx, func(text string) error { return e.send([]byte(text)) }); err != nil {
		if ctx.Err() == nil {
			g.log.Warn("stream ended", "session", r.Session, "request_id", r.ID, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
	return nil
}
