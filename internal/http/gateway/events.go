package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"

	"turnstile/pkg/session"
)

// getEvents streams a session's events until the client goes away.
func (g *Gateway) getEvents(w http.ResponseWriter, r *Request) error {
	if err := r.CheckQuery("after", "ticket"); err != nil {
		return err
	}
	after := r.Header.Get("Last-Event-ID")
	if after == "" {
		after = r.URL.Query().Get("after")
	}
	after, moved, err := g.placeOf(r, after)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	cancel(nil)
	for _, err := range g.deps.Client.Session(r.Session).EventPages(ctx, after) {
		if errors.Is(err, session.ErrInvalid) {
			return err // with an ended context EventPages only checks its arguments
		}
	}
	return g.serveStream(w, r, func(ctx context.Context, s *stream, to sink) { s.follow(ctx, to, after, moved) })
}

// serveStream opens a stream and has follow write it until the client goes away.
func (g *Gateway) serveStream(w http.ResponseWriter, r *Request, follow func(context.Context, *stream, sink)) error {
	ctx, s, err := g.openStream(context.Background(), r)
	if err != nil {
		return err
	}
	streamHeader(w.Header())
	if r.Method == http.MethodHead {
		s.close()
		w.WriteHeader(http.StatusOK)
		return nil
	}
	if conn, ok := takeOver(w, r.Request); ok {
		s.detach(ctx, conn, follow)
		return nil
	}
	defer s.close()
	defer context.AfterFunc(r.Context(), func() { s.cancel(errGone) })()
	follow(ctx, s, newResponse(w))
	if !errors.Is(context.Cause(ctx), errRevoked) {
		panic(http.ErrAbortHandler) // as eventWriter.complete says
	}
	return nil
}

// timePattern is a time in ms, by Redis' clock.
var timePattern = regexp.MustCompile(`^[0-9]{1,15}$`)

// placeOf returns the ID of the event after which a stream begins. after is such an ID, now or a
// time. For the last two, moved is true: the client must be sent the ID.
func (g *Gateway) placeOf(r *Request, after string) (id string, moved bool, err error) {
	switch {
	case after == "now":
		id, err = g.deps.Store.LastEventID(r.Work(), r.Session)
	case timePattern.MatchString(after):
		ms, _ := strconv.ParseInt(after, 10, 64) // 15 digits are one
		id, err = g.deps.Store.LastEventIDAt(r.Work(), r.Session, ms)
	default:
		return after, false, nil
	}
	if id == "" {
		id = "0-0" // before every event
	}
	return id, true, err
}

func streamHeader(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// follow sends the session's events until ctx ends: the client goes away or reads too slowly, the token has
// lost a permission, or the gateway drains. tell has the client sent its place first.
func (s *stream) follow(ctx context.Context, to sink, after string, tell bool) {
	e := newEventWriter(to, s)
	if e.send([]byte(": stream of "+s.session+"\n\n")) != nil {
		return
	}
	if tell && e.page([]session.Event{{Type: session.EventPlace, ID: after}}) != nil {
		return
	}
	e.beat()
	defer e.stop()
	for page, err := range s.gateway.deps.Client.Session(s.session).EventPages(ctx, after) {
		if err == nil {
			err = e.page(page)
		}
		if err != nil {
			s.over(ctx, e, err)
			return
		}
	}
}

// over tells the client why a stream ended, where that is useful.
func (s *stream) over(ctx context.Context, e *eventWriter, err error) {
	switch {
	case errors.Is(err, errDraining), errors.Is(err, errNarrowed):
		// A deploy ends all streams of a gateway: their clients come back one by one.
		_ = e.send(fmt.Appendf(nil, "retry: %d\n\n", 200+rand.IntN(1800)))
	case errors.Is(err, errRevoked):
		e.complete()
	case errors.Is(err, errSlow), ctx.Err() != nil:
	default:
		s.gateway.log.Warn("stream ended", "session", s.session, "request_id", s.id, "error", err)
	}
}
