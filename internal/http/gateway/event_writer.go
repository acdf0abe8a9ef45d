package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"turnstile/internal/http/store"
	"turnstile/pkg/session"
)

// heartbeat is how often an idle stream gets a comment. Proxies close idle connections, often after
// 30 or 60 s.
const heartbeat = 15 * time.Second

// sink is where a stream's bytes go.
type sink interface {
	// send sends and flushes a text. It fails if the client does not take it within writeTimeout.
	send(text string) error

	// end completes the stream. Without it, the client sees a broken stream.
	end()
}

// response is the response of a stream before its handler returned.
type response struct{ http.ResponseWriter }

func (r response) send(text string) error {
	allowWrite(r)
	if _, err := io.WriteString(r, text); err != nil {
		return err
	}
	return http.NewResponseController(r.ResponseWriter).Flush()
}

func (response) end() {} // the server does it after the handler

// eventWriter writes an event stream. Events and comments come from different goroutines.
type eventWriter struct {
	to      sink
	stream  *stream
	comment string // of a heartbeat

	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

func newEventWriter(to sink, s *stream) *eventWriter {
	return &eventWriter{to: to, stream: s, comment: ":\n\n"}
}

// event sends one event. A gap or reset has no ID, so the client keeps its last one.
func (w *eventWriter) event(e session.Event) error {
	if !w.stream.token.May(Operate) {
		e.Detail, e.Worker = "", ""
	}
	return w.data(e.ID, e)
}

// ofAny sends one event of a stream of all sessions. Its ID is the time to continue from.
func (w *eventWriter) ofAny(e store.AnyEvent) error {
	if !w.stream.token.May(Operate) {
		e.Detail, e.Worker = "", ""
	}
	return w.data(strconv.FormatInt(e.Resume, 10), struct {
		Session string `json:"session,omitempty"`
		EventID string `json:"event_id,omitempty"`
		session.Event
	}{e.Session, e.ID, e.Event})
}

func (w *eventWriter) data(id string, event any) error {
	data, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", id, err)
	}
	if id == "" {
		return w.send("data: " + string(data) + "\n\n")
	}
	return w.send("id: " + id + "\ndata: " + string(data) + "\n\n")
}

// send sends a text. A client that does not read loses its stream, and may continue after its last
// event.
func (w *eventWriter) send(text string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return errSlow
	}
	if w.to.send(text) != nil {
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
		if w.send(w.comment) == nil {
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
