package protocol

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

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
}

// proof is what is stored of a wait's secret.
func proof(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// WaitFor is AskFor for a program's value, which whoever knows the secret may give, or with timer for a time. The
// value comes as a decision: see Asked.Value.
func (c *Claim) WaitFor(ctx context.Context, key, secret string, timer bool) (Asked, error) {
	w := wait{Kind: waitValue, Proof: proof(secret), Name: key}
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

// OpenWait returns the key for which the turn with that fencing token waits, from the fields of its run record;
// "" if it waits for nothing but a person.
func OpenWait(fence, question, decided string) string {
	_, text := openQuestion(fence, question, decided)
	if !strings.HasPrefix(text, waitBegins) {
		return ""
	}
	return readQuestion(text).Name
}
