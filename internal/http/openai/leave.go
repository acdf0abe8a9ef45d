package openai

import (
	"context"
	"errors"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/session"
)

// leaveHeader says what becomes of a message whose client goes away.
const leaveHeader = "X-Turnstile-Leave"

// wantsLeave reports whether a message is cancelled when its client goes away. fresh: its session is made for it.
func wantsLeave(r *gateway.Request, fresh bool) (bool, error) {
	switch value := r.Header.Get(leaveHeader); {
	case value == "":
		return false, nil
	case value != "stop":
		return false, refuse(leaveHeader, "%s is stop.", leaveHeader)
	case !fresh && !r.Token.May(gateway.Control):
		return false, gateway.Fail(gateway.Forbidden, "The token %s may not control, which %s needs.", r.Token.Name, leaveHeader)
	}
	return true, nil
}

// whenGone cancels a message if its client goes away, as a stop button does: if the client wants that, or if nobody could
// fetch its response. Call done at the response's end.
func (a *API) whenGone(r *gateway.Request, to target, p place) (done func()) {
	if !to.leaves && (!to.temporary || r.Header.Get("Idempotency-Key") != "") {
		return func() {}
	}
	chat := a.client.Session(p.session).As(r.Token.Name)
	return r.WhenGone(func(ctx context.Context) error {
		if err := chat.CancelTurn(ctx, p.message); !errors.Is(err, session.ErrNotFound) {
			return err
		}
		return nil
	})
}
