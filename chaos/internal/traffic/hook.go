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
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"turnstile/chaos/internal/history"
	"turnstile/chaos/internal/world"
)

// Hook receives webhooks, verifies them and fails at random until it is told to be Kind.
type Hook struct {
	URL string

	log    *history.Log
	verify *standardwebhooks.Webhook
	kind   atomic.Bool
	server *http.Server
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
	h := &Hook{URL: "http://" + l.Addr().String() + "/hook", log: log, verify: verify}
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
	if !h.kind.Load() {
		switch x := rand.IntN(100); {
		case x < 8:
			rec.Code = http.StatusInternalServerError
		case x < 12:
			rec.Code = http.StatusTooManyRequests
			w.Header().Set("Retry-After", "1")
		case x < 17:
			rec.Code = 0
		case x == 17: // a receiver that hangs, and handled it
			rec.Code = 0
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
