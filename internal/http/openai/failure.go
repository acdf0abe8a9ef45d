package openai

import (
	"net/http"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/session"
)

// failure is OpenAI's JSON of an error.
type failure struct {
	Error problem `json:"error"`
}

type problem struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`

	// Failure is the code of the outcome of a turn that failed. Code would not do: the AI SDK
	// repeats a request after codes with words such as timeout.
	Failure string `json:"turnstile_code,omitempty"`

	Response string `json:"turnstile_response,omitempty"` // of a parked turn, its ID
}

// fail sends a problem in OpenAI's JSON. The SDKs repeat a request after 409, which does not help
// after a conflict, so a conflict is 400.
func fail(w http.ResponseWriter, _ *gateway.Request, p *gateway.Problem) {
	status := p.Status
	if status == http.StatusConflict {
		status = http.StatusBadRequest
	}
	_ = gateway.Respond(w, status, failure{problemOf(p)}) // texts can be encoded
}

// The types of problems. SDKs repeat a request after a serverError, also after one in a stream.
const (
	invalidRequest = "invalid_request_error"
	serverError    = "server_error"
)

func problemOf(p *gateway.Problem) problem {
	of := problem{Message: p.Title + ". " + p.Detail, Type: invalidRequest, Code: string(p.Code)}
	switch {
	case p.Status == http.StatusTooManyRequests:
		of.Type = "rate_limit_error"
	case p.Status >= http.StatusInternalServerError:
		of.Type = serverError
	}
	if len(p.Fields) > 0 {
		of.Param = &p.Fields[0]
	}
	return of
}

// told is an outcome as the request's token may read it: operators get the agent's own reason, and so do those who instruct
// the model, of a message that did. Their requests are what its server refuses.
func told(r *gateway.Request, asks *session.ModelRequest, o session.Outcome) session.Outcome {
	if o.Detail != "" && (r.Token.May(gateway.Operate) || asks != nil && r.Token.May(gateway.Instruct)) {
		o.Error = o.Detail
	}
	return o
}

// turnProblem is the problem of a message that ended without being done. No SDK repeats the request
// after its type: the message would run again.
func turnProblem(o session.Outcome) problem {
	return problem{Message: string(o.Status) + ": " + o.Error, Type: invalidRequest, Code: "turn_" + string(o.Status), Failure: o.Code}
}

// refuse is the problem of an unsupported parameter.
func refuse(param, format string, args ...any) error {
	p := gateway.Fail(gateway.InvalidRequest, format, args...)
	p.Fields = []string{param}
	return p
}

// unknownResponse is the problem of a response that is not stored, or that the token may not see.
func unknownResponse(id string) error {
	return gateway.Fail(gateway.UnknownMessage, "There is no response %.100q.", id)
}
