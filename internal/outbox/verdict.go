package outbox

import (
	"fmt"
	"net/http"
	"time"

	"turnstile/internal/backoff"
	"turnstile/internal/protocol/deliveries"
)

// maxRefusals is how often the destination may refuse a record. Failures that are no fault of the record
// do not count.
const maxRefusals = 5

// longestRetryAfter is the longest pause that a destination may ask for.
const longestRetryAfter = time.Hour

// class is the state of the destination that an answer shows.
type class int

const (
	alive   class = iota // it works, even if it refused this record
	failing              // it fails, perhaps for all sessions
	busy                 // it works and asks for a pause
	gone                 // it wants no more deliveries
)

// classify sorts an answer.
func classify(a answer) class {
	switch {
	case a.status == http.StatusGone:
		return gone
	case a.status == http.StatusRequestTimeout, a.status == http.StatusTooEarly, a.status == http.StatusTooManyRequests:
		return busy
	case a.status == http.StatusUnauthorized, a.status == http.StatusForbidden, a.status == http.StatusNotFound:
		return failing // its address or its secret is wrong: no fault of the record
	case a.status/100 == 2, a.status/100 == 4:
		return alive
	}
	return failing // no answer, 3xx, 5xx
}

// judge returns the verdict on a record after an answer, with its wait if there is another attempt. age is the record's age, life the age from which
// it is no longer delivered.
func judge(retry backoff.Backoff, a answer, r deliveries.Delivery, age, life time.Duration) deliveries.Ack {
	ack := deliveries.Ack{Delivery: r, Verdict: deliveries.Again, Unsure: unsure(a), Refused: classify(a) == alive, Why: a.why()}
	switch {
	case a.status/100 == 2:
		return deliveries.Ack{Delivery: r, Verdict: deliveries.Delivered}
	case ack.Refused && r.Refused+1 >= maxRefusals:
		ack.Verdict, ack.Why = deliveries.GiveUp, fmt.Sprintf("refused %d times: %s", r.Refused+1, ack.Why)
	case age >= life && r.By > 0:
		ack.Verdict, ack.Why = deliveries.GiveUp, "not delivered before its deliver_by: "+ack.Why
	case age >= life:
		ack.Verdict, ack.Why = deliveries.GiveUp, fmt.Sprintf("not delivered within max_age %s: %s", life, ack.Why)
	}
	// The next Take gives up records that have reached their age.
	ack.Wait = min(max(retry.After(r.Attempt), min(a.retryAfter, longestRetryAfter)), life-age)
	return ack
}

// unsure reports whether the receiver may have processed an attempt that failed: there was no answer, or
// a proxy may have sent it. Proxies send many kinds of 5xx: 502 to 504, 520 to 527, 530, 561. A server
// sends 500 for a handler that fails after its work.
func unsure(a answer) bool {
	if a.status == 0 {
		return a.sent
	}
	return a.status == http.StatusRequestTimeout || a.status/100 == 5
}
