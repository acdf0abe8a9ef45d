package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"turnstile/internal/http/store"
	"turnstile/pkg/session"
)

// heartbeat is how often an idle stream gets a comment. Proxies close idle connections, often after
// 30 or 60 s.
const heartbeat = 15 * time.Second

// sink is where a stream's bytes go.
type sink interface {
	// send sends and flushes bytes. It fails if the client does not take them within writeTimeout.
	send(data []byte) error

	// end completes the stream. Without it, the client sees a broken stream.
	end()

	// cut makes send fail, also one that waits for the client.
	cut()
}

// response is the response of a stream before its handler returned.
type response struct {
	http.ResponseWriter
	over *atomic.Bool // it was cut
}

func newResponse(w http.ResponseWriter) response { return response{w, new(atomic.Bool)} }

func (r response) send(data []byte) error {
	allowWrite(r)
	if r.over.Load() { // a cut before that allowed nothing more
		return errSlow
	}
	if _, err := r.Write(data); err != nil {
		return err
	}
	return http.NewResponseController(r.ResponseWriter).Flush()
}

func (response) end() {} // the server does it after the handler

func (r response) cut() {
	r.over.Store(true)
	_ = http.NewResponseController(r.ResponseWriter).SetWriteDeadline(time.Now())
}

// eventWriter writes an event stream. Events and comments come from different goroutines.
type eventWriter struct {
	to      sink
	stream  *stream
	comment string // of a heartbeat
	holds   int    // bytes that the stream's reader holds while the client reads

	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

func newEventWriter(to sink, s *stream) *eventWriter {
	return &eventWriter{to: to, stream: s, comment: ":\n\n"}
}

// page sends events. A gap or reset has no ID, so the client keeps its last one.
func (w *eventWriter) page(events []session.Event) error {
	var data []byte
	for i, e := range events {
		if !w.stream.token.May(Operate) {
			e.Detail, e.Worker = "", ""
		}
		var err error
		if data, err = appendEvent(data, e.ID, e); err != nil {
			return err
		}
		events[i] = session.Event{} // nothing holds them while the client reads
	}
	return w.send(data)
}

// ofAny sends one event of a stream of all sessions. Its ID is the time to continue from.
func (w *eventWriter) ofAny(e store.AnyEvent) error {
	if !w.stream.token.May(Operate) {
		e.Detail, e.Worker = "", ""
	}
	data, err := appendEvent(nil, strconv.FormatInt(e.Resume, 10), struct {
		Session string `json:"session,omitempty"`
		EventID string `json:"event_id,omitempty"`
		session.Event
	}{e.Session, e.ID, e.Event})
	if err != nil {
		return err
	}
	return w.send(data)
}

// appendEvent appends an event as streams have it.
func appendEvent(to []byte, id string, event any) ([]byte, error) {
	data, err := json.Marshal(event)
	if err != nil {
		return nil, fmt.Errorf("encode event %s: %w", id, err)
	}
	if id != "" {
		to = append(append(append(to, "id: "...), id...), '\n')
	}
	return append(append(append(to, "data: "...), data...), "\n\n"...), nil
}

// send sends bytes. A client that does not read loses its stream, and may continue after its last
// event.
func (w *eventWriter) send(data []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return errSlow
	}
	end := w.stream.gateway.sendings.begin(w.to.cut, len(data)+w.holds)
	err := w.to.send(data)
	if end(); err != nil {
		w.over = true
		w.stream.cancel(errSlow)
		return errSlow
	}
	return nil
}

// beat sends a comment after each heartbeat.
func (w *eventWriter) beat() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	pause := w.stream.gateway.heartbeat
	if w.timer != nil {
		w.timer.Reset(pause)
		return
	}
	w.timer = time.AfterFunc(pause, func() {
		if w.send([]byte(w.comment)) == nil {
			w.beat()
		}
	})
}

// complete marks the stream as whole. A session's events have no end, so only a client that must not
// come back gets this. Every other stream is broken off: clients such as fetch-event-source reopen a
// broken stream, and not a complete one.
func (w *eventWriter) complete() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.over = true
		w.to.end()
	}
}

// stop ends the writing. Nothing is written after it returns.
func (w *eventWriter) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over = true; w.timer != nil {
		w.timer.Stop()
	}
}
