package traffic

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"turnstile/chaos/internal/world"
	"turnstile/test/history"
	"turnstile/test/webhook"
)

// Hook is the server of a webhook.Receiver. It fails at random until Kind is called.
type Hook struct {
	URL string

	log      *history.Log
	receiver *webhook.Receiver
	dir      string // of the world
	kind     atomic.Bool
	server   *http.Server
}

// NewHook starts a receiver for the world of a directory.
func NewHook(ctx context.Context, log *history.Log, dir string) (*Hook, error) {
	receiver, err := webhook.New(world.Secret)
	if err != nil {
		return nil, err
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &Hook{URL: "http://" + l.Addr().String() + "/hook", log: log, receiver: receiver, dir: dir}
	h.server = &http.Server{Handler: http.HandlerFunc(h.receive), ReadHeaderTimeout: time.Minute}
	go func() { _ = h.server.Serve(l) }()
	return h, nil
}

// Kind makes the receiver accept everything from now on.
func (h *Hook) Kind() { h.kind.Store(true) }

// Close ends the receiver.
func (h *Hook) Close() { _ = h.server.Close() }

func (h *Hook) receive(w http.ResponseWriter, r *http.Request) {
	// Timestamps are checked while every worker's clock is right. A moved clock stays moved, and the
	// deliveries of its worker would never arrive.
	rec, err := h.receiver.Read(r, world.ClockMoved(h.dir))
	if err != nil {
		return
	}
	switch x := rand.IntN(100); {
	case rec.Code != http.StatusNoContent:
	case h.kind.Load():
		h.receiver.Handle(&rec)
	case rec.Sum < "08": // it does not understand this one
		rec.Code = http.StatusUnprocessableEntity
	case x >= 25:
		h.receiver.Handle(&rec)
	case x < 4: // a proxy does not reach it, or has another secret or address
		rec.Code = []int{302, 307, 401, 403, 404, 502, 521}[rand.IntN(7)]
		w.Header().Set("Location", webhook.Moved)
	case x < 8: // it is busy, or disables itself until an operator enables it
		rec.Code = []int{425, 425, 425, 429, 429, 429, 429, 410}[rand.IntN(8)]
		w.Header().Set("Retry-After", "1")
	default: // its response is lost
		h.receiver.Handle(&rec)
		rec.Code = 0
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
