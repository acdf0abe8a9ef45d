package traffic

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"turnstile/chaos/internal/history"
	"turnstile/chaos/internal/world"
)

// Hook receives webhooks and does with them what docs/webhooks.md says, word for word. It fails at random
// until it is told to be Kind.
type Hook struct {
	URL string

	log    *history.Log
	verify *standardwebhooks.Webhook
	kind   atomic.Bool
	server *http.Server

	mu   sync.Mutex
	last map[string]int64 // by session: the sequence of what was handled last
	done map[string]bool  // deliveries
}

// NewHook starts a receiver.
func NewHook(ctx context.Context, log *history.Log) (*Hook, error) {
	verify, err := standardwebhooks.NewWebhook(world.Secret)
	if err != nil {
		return nil, err
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &Hook{URL: "http://" + l.Addr().String() + "/hook", log: log, verify: verify, last: map[string]int64{}, done: map[string]bool{}}
	h.server = &http.Server{Handler: http.HandlerFunc(h.receive), ReadHeaderTimeout: time.Minute}
	go func() { _ = h.server.Serve(l) }()
	return h, nil
}

// Kind makes the receiver take everything from now on.
func (h *Hook) Kind() { h.kind.Store(true) }

// Close ends the receiver.
func (h *Hook) Close() { _ = h.server.Close() }

func (h *Hook) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the deliverer is gone
	}
	var d struct {
		Type string
		Data struct {
			Session  string
			Messages []string
			Outcome  struct{ Status, Reply string }
		}
	}
	err = json.Unmarshal(body, &d)
	sum := sha256.Sum256(body)
	attempt, _ := strconv.Atoi(r.Header.Get("Turnstile-Attempt"))
	sequence, _ := strconv.ParseInt(r.Header.Get("Turnstile-Sequence"), 10, 64)
	rec := history.Record{
		Kind: history.Post, ID: r.Header.Get("webhook-id"), Session: d.Data.Session, IDs: d.Data.Messages, Name: d.Type,
		N: sequence, Attempt: attempt, Sum: hex.EncodeToString(sum[:8]), Status: d.Data.Outcome.Status, Reply: d.Data.Outcome.Reply,
		Again: r.Header.Get("Turnstile-Possible-Duplicate") == "true", Code: http.StatusNoContent,
		// A worker's wall clock may be moved, and the time of a signature with it: only the signature counts.
		Valid: err == nil && h.verify.VerifyIgnoringTimestamp(body, r.Header) == nil,
	}
	switch x := rand.IntN(100); {
	case h.kind.Load():
		rec.Done = h.handle(rec)
	case sum[0] < 8: // it does not understand this one
		rec.Code = http.StatusUnprocessableEntity
	case x >= 25:
		rec.Done = h.handle(rec)
	case x < 4: // a proxy does not reach it
		rec.Code = http.StatusBadGateway
	case x < 8:
		rec.Code = http.StatusTooManyRequests
		w.Header().Set("Retry-After", "1")
	default: // its response is lost
		rec.Done, rec.Code = h.handle(rec), 0
		switch {
		case x < 15: // and a proxy responds in its place
			rec.Code = []int{408, 500, 502, 503, 504, 520, 524}[x-8]
		case x == 15: // because it hangs
			h.log.Add(rec)
			select {
			case <-r.Context().Done():
			case <-time.After(20 * time.Second):
			}
			panic(http.ErrAbortHandler)
		}
	}
	h.log.Add(rec)
	if rec.Code == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(rec.Code)
}

// handle reports whether a delivery is new to the receiver, and remembers it.
func (h *Hook) handle(rec history.Record) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if rec.N <= h.last[rec.Session] || rec.Again && h.done[rec.ID] {
		return false
	}
	h.last[rec.Session], h.done[rec.ID] = rec.N, true
	return true
}
