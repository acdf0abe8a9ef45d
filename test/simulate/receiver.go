package simulate

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"turnstile/internal/outbox"
)

const (
	// hook is the name of the only destination.
	hook = "hook"

	secret = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"

	// moved is where the receiver redirects to: nobody may follow.
	moved = "moved"
)

// receiver is a receiver of webhooks, an HTTP server on connections in memory. It does what
// docs/webhooks.md tells receivers, word for word, and fails at random until it is told to be fair.
type receiver struct {
	life         *life
	rng          *random
	destinations *outbox.Destinations
	verify       *standardwebhooks.Webhook
	server       *http.Server
	fair         atomic.Bool

	mu      sync.Mutex
	refused map[string]bool // deliveries that refuses has been asked about
	putOff  map[string]bool // deliveries that isBusy has been asked about

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
	verify, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, err
	}
	r := &receiver{life: l, rng: newRandom(l.seed, "receiver"), destinations: d, verify: verify, refused: map[string]bool{}, putOff: map[string]bool{}, conns: make(chan net.Conn), closed: make(chan struct{})}
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

// addressee is the context of a message: whom its sender lets the receiver reply to.
type addressee struct {
	Session string `json:"session"`
}

// ServeHTTP takes a delivery, or fails to.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	var d struct {
		Type string `json:"type"`
		Data struct {
			Session  string    `json:"session"`
			Messages []string  `json:"messages"`
			Context  addressee `json:"context"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &d); err != nil {
		panic(err)
	}
	p := post{
		session: d.Data.Session, id: req.Header.Get("webhook-id"), kind: d.Type, body: string(body), messages: d.Data.Messages,
		duplicate: req.Header.Get(outbox.HeaderDuplicate) == "true",
	}
	p.sequence, _ = strconv.ParseInt(req.Header.Get(outbox.HeaderSequence), 10, 64)
	p.sent, _ = strconv.ParseInt(req.Header.Get("webhook-timestamp"), 10, 64)
	p.attempt, _ = strconv.Atoi(req.Header.Get(outbox.HeaderAttempt))
	if req.URL.Path == "/"+moved {
		r.life.history.finding("redirect", "delivery %s of %s follows one", p.id, p.session)
	}
	if err := r.verify.Verify(body, req.Header); err != nil {
		r.life.history.finding("signature", "delivery %s of %s: %v", p.id, p.session, err)
		r.life.history.got(p)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if to := d.Data.Context.Session; to != p.session {
		r.life.history.finding("context", "delivery %s of %s is for %q", p.id, p.session, to)
		r.life.history.got(p)
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	switch fair := r.fair.Load(); {
	case !fair && r.refuses(p.id):
		r.life.history.got(p)
		w.WriteHeader(http.StatusUnprocessableEntity)
	case !fair && r.rng.chance(4):
		r.fail(w, p)
	case r.life.history.isCalmNow() && r.isBusy(p.id):
		p.putOff = true
		r.life.history.got(p)
		w.WriteHeader(http.StatusTooManyRequests)
	default:
		r.life.history.handle(p)
		w.WriteHeader(http.StatusNoContent)
	}
}

// isBusy reports whether the receiver puts a delivery off: some of them, once.
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

// fail fails in one of the ways of real receivers and of the proxies before them.
func (r *receiver) fail(w http.ResponseWriter, p post) {
	switch r.rng.below(6) {
	case 0: // too slow: the deliverer does not wait for it
		sleep(r.life.ctx, 20*time.Second)
		r.life.history.handle(p)
	case 1: // its response is lost
		r.life.history.handle(p)
		panic(http.ErrAbortHandler)
	case 2: // a proxy loses its response
		r.life.history.handle(p)
		w.WriteHeader(pick(r.rng, 101, 408, 500, 502, 503, 504, 520, 524))
	case 3: // a proxy does not reach it, or has another secret or address
		r.life.history.got(p)
		w.Header().Set("Location", "/"+moved)
		w.WriteHeader(pick(r.rng, 302, 307, 401, 403, 404, 502, 503, 521))
	case 4: // it wants nothing, until an operator enables it
		r.life.history.got(p)
		w.WriteHeader(pick(r.rng, 410, 429, 429))
	default:
		r.life.history.got(p)
		w.WriteHeader(pick(r.rng, 425, 429))
	}
}
