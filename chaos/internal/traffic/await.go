package traffic

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"turnstile"
	"turnstile/pkg/session"
	"turnstile/test/history"
)

// await waits for a message's outcome at one of the exits. Half of the users do not wait, except
// that the senders are slowed down until the message ends.
func (t *Traffic) await(m message) {
	ctx, cancel := context.WithTimeout(context.Background(), t.longest)
	defer cancel()
	rec := history.Record{Kind: history.Wait, Session: m.session, ID: m.id, Since: time.Now().UnixNano()}
	var o session.Outcome
	var err error
	switch m.wait {
	case 0:
		rec.Via = viaHTTP
		o, err = t.awaitHTTP(ctx, m)
	case 1:
		rec.Via = "follow"
		chat := t.client.Session(m.session)
		for _, err = range chat.Events(ctx, turnstile.EventsOf(m.id)) {
			if err != nil {
				break
			}
		}
		if err == nil {
			o, err = chat.Wait(ctx, m.id)
		}
	default:
		rec.Via = viaClient
		o, err = t.client.Session(m.session).Wait(ctx, m.id)
	}
	rec.Status, rec.Reply, rec.Turn, rec.Reason = string(o.Status), o.Reply, o.Turn, o.Why()
	if err != nil {
		rec.Error = err.Error()
		if errors.Is(err, session.ErrNotFound) {
			rec.Status = "unknown"
		}
	}
	t.log.Add(rec)
}

// awaitHTTP asks one gateway after the other.
func (t *Traffic) awaitHTTP(ctx context.Context, m message) (o session.Outcome, err error) {
	for try := 0; ctx.Err() == nil; try++ {
		var req *http.Request
		req, err = http.NewRequestWithContext(ctx, http.MethodGet, t.gateway(try)+"/v1/sessions/"+m.session+"/messages/"+m.id+"?wait=20s", nil)
		if err != nil {
			return o, err
		}
		var code int
		var body []byte
		code, body, err = t.do(req)
		switch {
		case err != nil || code >= 500:
			pause(ctx, 100*time.Millisecond)
			continue
		case code == http.StatusNotFound:
			return o, session.ErrNotFound
		}
		var got struct {
			State   string           `json:"state"`
			Outcome *session.Outcome `json:"outcome"`
		}
		if err = json.Unmarshal(body, &got); err != nil {
			return o, err
		}
		if got.Outcome != nil {
			return *got.Outcome, nil
		}
	}
	return o, context.Cause(ctx)
}
