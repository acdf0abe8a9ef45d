package simulate

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"turnstile/internal/outbox"
	"turnstile/test/history"
	"turnstile/test/webhook"
)

const (
	// hook is the name of the only destination.
	hook = "hook"

	secret = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
)

// receiver is the server of a webhook.Receiver, on connections in memory. It fails at random until it is
// set to fair.
type receiver struct {
	life         *life
	rng          *random
	destinations *outbox.Destinations
	webhook      *webhook.Receiver
	server       *http.Server
	fair         atomic.Bool

	mu      sync.Mutex
	refused map[string]bool // deliveries about which refuses was asked
	putOff  map[string]bool // deliveries about which isBusy was asked
	missing map[string]bool // by session and message: it expects the outcome and has not handled it

	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newReceiver(l *life) (*receiver, error) {
	file := `[{"name":"hook","url":"http://hook.example/","secrets":["` + secret + `"],"private":true}]`
	d, err := outbox.ParseDestinations([]byte(file))
	if err != nil {
		return nil, err
	}
	receives, err := webhook.New(secret)
	if err != nil {
		return nil, err
	}
	r := &receiver{life: l, rng: newRandom(l.seed, "receiver"), destinations: d, webhook: receives, refused: map[string]bool{}, putOff: map[string]bool{}, missing: map[string]bool{}, conns: make(chan net.Conn), closed: make(chan struct{})}
	r.close = sync.OnceFunc(func() { close(r.closed) })
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	return r, nil
}

// serve hands a connection to the HTTP server.
func (r *receiver) serve(c net.Conn) {
	go func() {
		select {
		case r.conns <- c:
		case <-r.closed:
			_ = c.Close()
		}
	}()
}

func (r *receiver) Accept() (net.Conn, error) {
	select {
	case c := <-r.conns:
		return c, nil
	case <-r.closed:
		return nil, net.ErrClosed
	}
}

// Close is called by the HTTP server, sometimes twice.
func (r *receiver) Close() error {
	r.close()
	return nil
}

func (r *receiver) Addr() net.Addr { return address{} }

// ServeHTTP takes a delivery, or fails to.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	p, err := r.webhook.Read(req, false)
	if err != nil {
		return
	}
	switch fair := r.fair.Load(); {
	case p.Code != http.StatusNoContent:
	case !fair && r.refuses(p.ID):
		p.Code = http.StatusUnprocessableEntity
	case !fair && r.rng.chance(4):
		r.fail(w, p)
		return
	case r.life.isCalm.Load() && r.isBusy(p.ID):
		p.Code = http.StatusTooManyRequests
	default:
		r.handle(&p)
	}
	r.life.log.Add(p)
	w.WriteHeader(p.Code)
}

// isBusy reports whether the receiver postpones a delivery: some of them, once.
func (r *receiver) isBusy(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.putOff[id]; known {
		return false
	}
	r.putOff[id] = r.rng.chance(3)
	return r.putOff[id]
}

// refuses reports whether the receiver does not understand a delivery. It never does, until it is fair.
func (r *receiver) refuses(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	refused, known := r.refused[id]
	if !known {
		refused = r.rng.chance(10)
		r.refused[id] = refused
	}
	return refused
}

// fail fails like real receivers, or proxies in front of them.
func (r *receiver) fail(w http.ResponseWriter, p history.Record) {
	way := r.rng.below(6)
	switch way {
	case 0: // too slow: the deliverer does not wait for it
		sleep(r.life.ctx, 20*time.Second)
		r.handle(&p)
	case 1: // its response is lost
		r.handle(&p)
		p.Code = 0
	case 2: // a proxy loses its response
		r.handle(&p)
		p.Code = pick(r.rng, 101, 408, 500, 502, 503, 504, 520, 524)
	case 3: // a proxy does not reach it, or has another secret or address
		w.Header().Set("Location", webhook.Moved)
		p.Code = pick(r.rng, 302, 307, 401, 403, 404, 502, 503, 521)
	case 4: // it disables itself, until an operator enables it
		p.Code = pick(r.rng, 410, 429, 429)
	default:
		p.Code = pick(r.rng, 425, 429)
	}
	r.life.log.Add(p)
	switch way {
	case 0: // nobody reads its response
	case 1:
		panic(http.ErrAbortHandler)
	default:
		w.WriteHeader(p.Code)
	}
}

// handle does steps 2 and 4 of docs/webhooks.md.
func (r *receiver) handle(p *history.Record) {
	r.webhook.Handle(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range p.IDs {
		if p.Done && p.Name != "message.withdrawn" {
			r.missing[p.Session+" "+id] = false
		}
	}
}

// expects notes that the outcome of a message is to be delivered.
func (r *receiver) expects(session, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.missing[session+" "+id]; !known {
		r.missing[session+" "+id] = true
	}
}

// hasAll reports whether it handled all outcomes that it expects.
func (r *receiver) hasAll() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, missing := range r.missing {
		if missing {
			return false
		}
	}
	return true
}
