package traffic

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
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
	dir    string // of the world
	kind   atomic.Bool
	server *http.Server

	mu   sync.Mutex
	last map[string]int64 // by session: the sequence of what was handled last
	done map[string]bool  // deliveries
}

// moved is where the receiver redirects to: nobody may follow.
const moved = "/moved"

// NewHook starts a receiver for the world of a directory.
func NewHook(ctx context.Context, log *history.Log, dir string) (*Hook, error) {
	verify, err := standardwebhooks.NewWebhook(world.Secret)
	if err != nil {
		return nil, err
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &Hook{URL: "http://" + l.Addr().String() + "/hook", log: log, verify: verify, dir: dir, last: map[string]int64{}, done: map[string]bool{}}
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
			Context  struct{ Session string }
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
		Valid: err == nil && h.verified(body, r.Header),
	}
	if r.URL.Path != "/hook" {
		rec.Error = "it follows a redirect"
	}
	switch x := rand.IntN(100); {
	case !rec.Valid:
		rec.Code = http.StatusUnauthorized
	case d.Data.Context.Session != rec.Session:
		rec.Code, rec.Error = http.StatusUnprocessableEntity, fmt.Sprintf("its context is that of %q", d.Data.Context.Session)
	case h.kind.Load():
		rec.Done = h.handle(rec)
	case sum[0] < 8: // it does not understand this one
		rec.Code = http.StatusUnprocessableEntity
	case x >= 25:
		rec.Done = h.handle(rec)
	case x < 4: // a proxy does not reach it, or has another secret or address
		rec.Code = []int{302, 307, 401, 403, 404, 502, 521}[rand.IntN(7)]
		w.Header().Set("Location", moved)
	case x < 8: // it is busy, or wants nothing until an operator enables it
		rec.Code = []int{425, 425, 425, 429, 429, 429, 429, 410}[rand.IntN(8)]
		w.Header().Set("Retry-After", "1")
	default: // its response is lost
		rec.Done, rec.Code = h.handle(rec), 0
		switch {
		case x < 16: // and a proxy responds in its place
			rec.Code = []int{101, 408, 500, 502, 503, 504, 520, 524}[x-8]
		case x == 16: // because it hangs
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

// verified does step 1. The time counts while every worker's clock is right: one that was moved stays so, and
// its deliveries would never arrive.
func (h *Hook) verified(body []byte, header http.Header) bool {
	if world.ClockMoved(h.dir) {
		return h.verify.VerifyIgnoringTimestamp(body, header) == nil
	}
	return h.verify.Verify(body, header) == nil
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
