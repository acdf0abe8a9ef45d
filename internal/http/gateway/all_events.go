package gateway

import (
	"context"
	"net/http"
	"strconv"
)

// getAllEvents streams the events of all sessions that the token sees until the client goes away.
func (g *Gateway) getAllEvents(w http.ResponseWriter, r *Request) error {
	if err := r.CheckQuery("after"); err != nil {
		return err
	}
	after := r.Header.Get("Last-Event-ID")
	if after == "" {
		after = r.URL.Query().Get("after")
	}
	var from int64 // 0: now
	if after != "" && after != "now" {
		if !timePattern.MatchString(after) {
			return Fail(InvalidRequest, "after is a time in ms, the id of an event of this stream, or now.")
		}
		from, _ = strconv.ParseInt(after, 10, 64) // 15 digits are one
	}
	return g.serveStream(w, r, func(ctx context.Context, s *stream, to sink) {
		e := newEventWriter(to, s)
		e.holds = allHolds
		if e.send([]byte(": stream of all sessions that "+s.token.Name+" sees\n\n")) != nil {
			return
		}
		e.beat()
		defer e.stop()
		s.over(ctx, e, g.deps.Store.AllEvents(ctx, from, s.token.Sees, e.ofAny))
	})
}
