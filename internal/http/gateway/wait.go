package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

// waitMost is the longest that a request waits for an outcome.
const waitMost = time.Minute

// Wait reads how long the query wants to wait: ?wait=30s, at most waitMost. 0: not at all.
func (r *Request) Wait() (time.Duration, error) {
	text := r.URL.Query().Get("wait")
	if text == "" {
		return 0, nil
	}
	d, err := wire.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, Fail(InvalidRequest, "wait is %.100q; write it as 30s.", text)
	}
	return min(d, waitMost), nil
}

// More is a context for work in Redis after a wait, when Work may have expired.
func (r *Request) More() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), workTimeout)
}

// preferredWait reads the preference wait=SECONDS (RFC 7240), at most waitMost. It ignores invalid
// values, as preferences may be ignored.
func preferredWait(h http.Header) time.Duration {
	for _, line := range h.Values("Prefer") {
		for preference := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(preference), "=")
			n, err := strconv.ParseUint(strings.Trim(value, `" `), 10, 64) // n is the maximum if the number is too high
			if (err == nil || errors.Is(err, strconv.ErrRange)) && strings.EqualFold(strings.TrimSpace(name), "wait") {
				return time.Duration(min(n, uint64(waitMost.Seconds()))) * time.Second
			}
		}
	}
	return 0
}

// applied is how long a request waits, in whole seconds. The client may have asked for longer than
// waitMost.
func applied(h http.Header, patience time.Duration) {
	h.Set("Preference-Applied", fmt.Sprintf("wait=%.0f", math.Ceil(patience.Seconds())))
}

// idempotencyKey returns the message ID for the request's Idempotency-Key, "" without one. A key
// may be quoted. One that is no valid message ID is hashed.
func idempotencyKey(r *Request) (string, error) {
	values := r.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	key := strings.TrimSpace(values[0])
	if inner, ok := strings.CutPrefix(key, `"`); ok {
		if inner, ok = strings.CutSuffix(inner, `"`); ok {
			key = inner
		}
	}
	switch {
	case len(values) > 1:
		return "", Fail(InvalidRequest, "There is more than one Idempotency-Key.")
	case key == "":
		return "", Fail(InvalidRequest, "The Idempotency-Key is empty.")
	case session.ValidateID(key) == nil:
		return key, nil
	}
	return "k-" + hashed(key), nil
}

func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
