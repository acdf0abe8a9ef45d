// Package webhook is a receiver that follows docs/webhooks.md word for word, and makes the checker's
// records. The servers of chaos and simulate use it, and fail at random.
package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"turnstile/test/history"
)

// Moved is the path to which a receiver's server redirects. Nobody may follow it.
const Moved = "/moved"

// Receiver receives the deliveries of one destination. It is safe for concurrent use.
type Receiver struct {
	verify *standardwebhooks.Webhook

	mu   sync.Mutex
	last map[string]int64 // by session: the sequence that was handled last
	done map[string]bool  // deliveries
}

// New makes a receiver that knows the destination's secret.
func New(secret string) (*Receiver, error) {
	verify, err := standardwebhooks.NewWebhook(secret)
	return &Receiver{verify: verify, last: map[string]int64{}, done: map[string]bool{}}, err
}

// Read reads a delivery, verifies it (step 1) and checks its context (step 3): the sender has put the
// session's key there. The record's Code is the response, 204 if the delivery passes. wrongClocks ignores
// the timestamp. An error means that the deliverer closed the connection.
func (r *Receiver) Read(req *http.Request, wrongClocks bool) (rec history.Record, err error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return rec, err
	}
	var d struct {
		Type string
		Data struct {
			Session  string
			Messages []string
			Context  struct{ Session string }
			Outcome  struct{ Status, Reply string }
		}
	}
	unreadable := json.Unmarshal(body, &d)
	verify := r.verify.Verify
	if wrongClocks {
		verify = r.verify.VerifyIgnoringTimestamp
	}
	sum := sha256.Sum256(body)
	rec = history.Record{
		Kind: history.Post, ID: req.Header.Get("webhook-id"), Session: d.Data.Session, IDs: d.Data.Messages, Name: d.Type,
		Sum: hex.EncodeToString(sum[:8]), Status: d.Data.Outcome.Status, Reply: d.Data.Outcome.Reply,
		Again: req.Header.Get("Turnstile-Possible-Duplicate") == "true", Code: http.StatusNoContent,
		Valid: unreadable == nil && verify(body, req.Header) == nil,
	}
	rec.Attempt, _ = strconv.Atoi(req.Header.Get("Turnstile-Attempt"))
	rec.N, _ = strconv.ParseInt(req.Header.Get("Turnstile-Sequence"), 10, 64)
	sent, _ := strconv.ParseInt(req.Header.Get("webhook-timestamp"), 10, 64)
	rec.Since = sent * int64(time.Second)
	switch {
	case !rec.Valid:
		rec.Code = http.StatusUnauthorized
	case d.Data.Context.Session != rec.Session:
		rec.Code, rec.Error = http.StatusUnprocessableEntity, fmt.Sprintf("its context is that of %q", d.Data.Context.Session)
	case req.URL.Path == Moved:
		rec.Error = "it follows a redirect"
	}
	return rec, nil
}

// Handle drops a delivery that is not newer (step 2) or handles it (step 4). Done says whether it
// was handled.
func (r *Receiver) Handle(rec *history.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec.Done = rec.N > r.last[rec.Session] && (!rec.Again || !r.done[rec.ID]); rec.Done {
		r.last[rec.Session], r.done[rec.ID] = rec.N, true
		rec.At = time.Now().UnixNano()
	}
}
