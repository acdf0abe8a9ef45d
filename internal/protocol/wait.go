package protocol

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"turnstile/pkg/session"
)

// ValueMost bounds a program's value in bytes.
const ValueMost = 256 << 10

// Given is the decision on a wait that a program has ended with a value.
const Given = "value"

// The kinds of waits.
const (
	waitValue = "value" // for a program's value
	waitTimer = "timer" // for a time: nobody ends it
)

// waitBegins is how a wait begins where a question is stored.
const waitBegins = `{"kind":`

// wait is stored as a question. The scripts read its first two fields.
type wait struct {
	Kind  string `json:"kind"`
	Proof string `json:"proof"`
	Name  string `json:"name"` // its key

	Timeout session.Millis `json:"timeout_ms,omitempty"` // since it was stored first, for people. 0: unknown, or for ever
}

// proof is what is stored of a wait's secret.
func proof(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// WaitFor is AskFor for a program's value, which whoever knows the secret may give, or with timer for a time. The
// value comes as a decision: see Asked.Value. Its caller ends it after the timeout; 0: never.
func (c *Claim) WaitFor(ctx context.Context, key, secret string, timer bool, timeout time.Duration) (Asked, error) {
	w := wait{Kind: waitValue, Proof: proof(secret), Name: key, Timeout: session.Millis(max(timeout, 0))}
	if timer {
		w.Kind = waitTimer
	}
	return c.putQuestion(ctx, key, w)
}

// Value is what a program has given, if it has. A value that was given this moment comes with the next WaitFor.
func (a Asked) Value() (value json.RawMessage, ok bool) {
	if a.Decision != Given || a.By == "" {
		return nil, false
	}
	return json.RawMessage(a.By), true
}

// OpenWait returns the key for which the turn with that fencing token waits, and until when, from the fields of its run
// record; "" if it waits for nothing but a person, a zero time if it waits for ever.
func OpenWait(fence, question, decided, last string) (key string, until time.Time) {
	number, text := openQuestion(fence, question, decided)
	if !strings.HasPrefix(text, waitBegins) {
		return "", until
	}
	w := readQuestion(text)
	if at := askedAt(number, last); w.Timeout > 0 && !at.IsZero() {
		until = at.Add(time.Duration(w.Timeout))
	}
	return w.Name, until
}
