package openai

import (
	"net/http"

	"turnstile/internal/gateway"
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
}

// fail sends a problem in OpenAI's JSON. The SDKs repeat a request after 409, so a conflict, which
// no repetition ends, is 400.
func fail(w http.ResponseWriter, _ *gateway.Request, p *gateway.Problem) {
	status := p.Status
	if status == http.StatusConflict {
		status = http.StatusBadRequest
	}
	kind := "invalid_request_error"
	switch {
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case status >= http.StatusInternalServerError:
		kind = "server_error"
	}
	f := failure{problem{Message: p.Title + ". " + p.Detail, Type: kind, Code: string(p.Code)}}
	if len(p.Fields) > 0 {
		f.Error.Param = &p.Fields[0]
	}
	_ = gateway.Respond(w, status, f) // texts can be encoded
}

// refuse is the problem of a request whose parameter cannot be served.
func refuse(param, format string, args ...any) error {
	p := gateway.Fail(gateway.InvalidRequest, format, args...)
	p.Fields = []string{param}
	return p
}

// unknownResponse is the problem of a response that is not stored, or that the token may not see.
func unknownResponse(id string) error {
	return gateway.Fail(gateway.UnknownMessage, "There is no response %.100q.", id)
}
