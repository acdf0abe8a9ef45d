package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/session"
)

// parkedWait is how often a request that waits for a message looks whether the session's turn is parked for a
// decision, or for a program's value or a time. Then it may take days, and the request ends.
const parkedWait = time.Minute

// errLook is the cause with which a wait ends to look at its session.
var errLook = errors.New("look at the session")

// parkedError is why a request ends: what the turn waits for, without a worker.
type parkedError string

func (e parkedError) Error() string { return "the turn waits without a worker for " + string(e) }

// await waits for a message's end. The error is a parkedError if the session's turn waits without a worker.
func (a *API) await(r *gateway.Request, p place) (session.Outcome, error) {
	ctx, cancel := r.Waiting()
	defer cancel()
	chat := a.client.Session(p.session)
	for {
		part, end := context.WithTimeoutCause(ctx, a.parkedWait, errLook)
		o, err := chat.Wait(part, p.message)
		end()
		if !errors.Is(err, errLook) {
			return o, gateway.Lost(gateway.Interrupted(err), p.id())
		}
		info, err := chat.Info(ctx) // after an error the wait goes on, as it does without Redis
		switch {
		case err != nil || info.Phase != session.PhaseParked:
		case info.Question != nil:
			return o, parkedError(fmt.Sprintf("the decision on %q", info.Question.Name))
		case info.WaitsFor != "":
			return o, parkedError(fmt.Sprintf("%q", info.WaitsFor))
		}
	}
}

// unended responds to a wait that failed. To a parked turn that is a 503, which names the response. SDKs repeat a
// request after it, and only with a key that is sure to be no second message: else it is a 400.
func (a *API) unended(w http.ResponseWriter, r *gateway.Request, p place, err error) error {
	var parked parkedError
	if !errors.As(err, &parked) {
		return err
	}
	status, of := http.StatusServiceUnavailable, problem{
		Message:  fmt.Sprintf("The turn waits without a worker, for %s. Get the response %s later.", string(parked), p.id()),
		Type:     serverError,
		Code:     "turn_parked",
		Response: p.id(),
	}
	if r.Header.Get("Idempotency-Key") == "" {
		status, of.Type = http.StatusBadRequest, invalidRequest
	}
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(a.parkedWait.Seconds()/2))))
	return gateway.Respond(w, status, failure{of})
}
