package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	"turnstile/internal/outbox"
)

// receiver counts deliveries and checks their order.
type receiver struct {
	name         string
	destinations *outbox.Destinations
	stop         func()
	came         chan time.Time // when deliveries arrived; full: they are not sent

	mu       sync.Mutex
	posts    int
	last     map[string]int64 // sequence of each session
	disorder int
}

func receive() (*receiver, error) {
	r := &receiver{name: "lab", came: make(chan time.Time, 1)}
	server := httptest.NewServer(r)
	r.stop = server.Close
	r.reset()
	var err error
	r.destinations, err = outbox.ParseDestinations(fmt.Appendf(nil,
		`[{"name": %q, "url": %q, "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "private": true}]`, r.name, server.URL))
	return r, err
}

// reset forgets the received deliveries.
func (r *receiver) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posts, r.disorder, r.last = 0, 0, map[string]int64{}
	select {
	case <-r.came:
	default:
	}
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.posts
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	at := time.Now()
	body, err := io.ReadAll(req.Body)
	var told struct{ Data struct{ Session string } }
	if err == nil {
		err = json.Unmarshal(body, &told)
	}
	sequence, bad := strconv.ParseInt(req.Header.Get("Turnstile-Sequence"), 10, 64)
	if err != nil || bad != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posts++
	if sequence <= r.last[told.Data.Session] {
		r.disorder++
	}
	r.last[told.Data.Session] = sequence
	select {
	case r.came <- at:
	default:
	}
	w.WriteHeader(http.StatusNoContent)
}
