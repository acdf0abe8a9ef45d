// Command payments plays a payment service for the examples step-agent and step-agent-python. Like a real
// one, it does a thing once for each Idempotency-Key, and repeats its response to a second request with that
// key. It prints each request.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8099", "where it listens")
	delay := flag.Duration("delay", 0, "how late it responds to the first request with a key: time to kill a worker")
	flag.Parse()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", *addr)
	if err == nil {
		fmt.Printf("listening on http://%s\n", listener.Addr())
		server := &http.Server{Handler: &payments{delay: *delay, done: map[string]int{}}, ReadHeaderTimeout: 10 * time.Second}
		err = server.Serve(listener)
	}
	fmt.Fprintln(os.Stderr, "payments:", err)
	os.Exit(1)
}

type payments struct {
	delay time.Duration

	mu   sync.Mutex
	done map[string]int // by path and idempotency key
}

// ServeHTTP handles a request such as POST /charges.
func (p *payments) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if r.Method != http.MethodPost || key == "" {
		http.Error(w, "POST with an Idempotency-Key, please", http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	number, again := p.done[r.URL.Path+" "+key]
	if !again {
		number = len(p.done) + 1
		p.done[r.URL.Path+" "+key] = number
	}
	p.mu.Unlock()
	fmt.Printf("%s %q: number %d, again %t\n", r.URL.Path, key, number, again)
	if !again {
		select {
		case <-time.After(p.delay):
		case <-r.Context().Done():
			return
		}
	}
	id := fmt.Sprintf("%s-%d", strings.Trim(r.URL.Path, "/"), number)
	if err := json.NewEncoder(w).Encode(map[string]string{"id": id}); err != nil {
		fmt.Fprintln(os.Stderr, "payments:", err)
	}
}
