package model

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"turnstile/pkg/agent"
)

// failure is why there was no reply.
type failure struct {
	why     error         // a sentence for operators
	passing bool          // a retry may succeed
	after   time.Duration // the server asked for this wait; 0: it did not
	busy    bool          // it has too many requests: that is no fault of this one
	loading bool          // the server will be ready soon: no try is spent
}

// whileLoading is the pause before a server that loads its model is asked again.
const whileLoading = 2 * time.Second

// mostLoads is how many such pauses spend no try: two minutes.
const mostLoads = 60

// statusError is an error response: an HTTP status with the server's text.
type statusError struct {
	status  int // 0: it came in the stream, with only a text
	header  http.Header
	body    []byte
	code    string // with the type, both as received
	message string // at most maxMessage bytes
	written string // what the model wrote, if the server could not read that; Groq
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("HTTP %d", e.status)
	switch {
	case e.status == 0:
		text = "an error in the stream"
	case e.status < 300:
		text = "no stream"
	}
	if e.message != "" {
		text += ": " + e.message
	}
	return text
}

const maxMessage = 300

// quoted is what the model wrote, as a part of a sentence.
func (e *statusError) quoted() string {
	if e.written == "" {
		return ""
	}
	return " You wrote: " + e.written
}

// newStatusError reads the forms in which servers report errors: {"error":{...}} of OpenAI,
// {"error":"text"} of Ollama, {"message":"text"} of vLLM, {"detail":...}, text. In a response of success the error's code
// is the status, if it is one, and that of a rate limit is 429.
func newStatusError(status int, header http.Header, body []byte) *statusError {
	e := &statusError{status: status, header: header, body: body}
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
		Detail  json.RawMessage `json:"detail"`
	}
	var inner struct {
		Message string          `json:"message"`
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
		Written string          `json:"failed_generation"`
	}
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 { // Gemini's
		body = list[0]
	}
	switch {
	case json.Unmarshal(body, &outer) != nil:
		if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) { // one line of an HTML page is of no use
			e.message = string(body)
		}
	case json.Unmarshal(outer.Error, &inner) == nil && inner.Message != "":
		e.message, e.code, e.written = inner.Message, inner.Type+" "+plain(inner.Code), inner.Written
	case len(outer.Error) > 0 && string(outer.Error) != "null":
		e.message = plain(outer.Error)
	case outer.Message != "":
		e.message, e.code = outer.Message, outer.Type+" "+plain(outer.Code)
	case len(outer.Detail) > 0:
		e.message = plain(outer.Detail)
	default:
		e.message = string(body)
	}
	e.message, e.written = oneLine(e.message), oneLine(e.written)
	for _, code := range []json.RawMessage{inner.Code, outer.Code} {
		if n, err := strconv.Atoi(plain(code)); err == nil && n >= 400 && n < 600 && status < 300 {
			e.status = n
		}
	}
	if e.status < 300 && strings.Contains(e.code, "rate_limit") {
		e.status = http.StatusTooManyRequests
	}
	return e
}

func oneLine(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "..."
	}
	return text
}

// mentions reports whether one of the words is in the error's code or message.
func (e *statusError) mentions(words ...string) bool {
	text := strings.ToLower(e.code + " " + e.message)
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// noKey is the key in an error.
const noKey = "[the key]"

// explain is a sentence about the error, without the key.
func (r *run) explain(err error) failure {
	f := r.cause(err)
	if key := r.config.Key; key != "" && strings.Contains(f.why.Error(), key) {
		f.why = errors.New(strings.ReplaceAll(f.why.Error(), key, noKey))
	}
	return f
}

func (r *run) cause(err error) failure {
	var status *statusError
	switch {
	case errors.Is(err, errTooMuch):
		return failure{why: err}
	case errors.As(err, &status):
		return r.refused(status)
	case errors.Is(err, errEnded) || errors.Is(err, errSilent) || errors.Is(err, errShape):
		return failure{why: err, passing: true}
	}
	var certificate *tls.CertificateVerificationError
	var at *url.Error
	if !errors.As(err, &at) {
		return failure{why: fmt.Errorf("the connection to the model's server broke: %w", err), passing: true}
	}
	return failure{ // without at's URL, which may have a password
		why:     fmt.Errorf("the model's server at %s does not respond: %w", r.base.Redacted(), at.Err),
		passing: !errors.As(err, &certificate),
	}
}

func (r *run) refused(e *statusError) failure {
	model, base := r.config.Model, r.base.Redacted()
	switch {
	case e.tooLong():
		why := fmt.Errorf("the conversation is too long for the model %s; if this comes often, set context_tokens of TURNSTILE_MODEL_FILE lower than %d",
			model, r.config.ContextTokens)
		return failure{why: agent.ForUser(why, "the conversation is too long: /new begins a new one, /undo takes back the last turn")}
	case e.status == http.StatusUnauthorized && r.config.Key == "":
		return failure{why: errors.New("the model's server wants a key (HTTP 401) and none is set: set TURNSTILE_MODEL_KEY")}
	case e.status == http.StatusUnauthorized:
		return failure{why: errors.New("the model's server refused the key (HTTP 401): check TURNSTILE_MODEL_KEY")}
	case e.status == http.StatusForbidden:
		return failure{why: fmt.Errorf("the model's server refused the key, or the model %s with it (%w): check TURNSTILE_MODEL_KEY and TURNSTILE_MODEL", model, e)}
	case e.status == http.StatusNotFound || e.status == http.StatusMethodNotAllowed:
		return failure{why: fmt.Errorf("the server at %s does not know the model %s, or does not have %s there (%w): check TURNSTILE_MODEL and TURNSTILE_MODEL_URL", base, model, r.provider.api(), e)}
	case e.status == http.StatusTooManyRequests && e.mentions("insufficient_quota"):
		return failure{why: fmt.Errorf("the account at the model's server has no credit left (%w)", e)}
	case e.status == http.StatusTooManyRequests:
		return failure{why: fmt.Errorf("the model's server has too many requests (%w)", e), passing: true, busy: true, after: e.pause(r.now())}
	case e.status == 0:
		return failure{why: fmt.Errorf("the model's server failed in its response (%w)", e), passing: true, after: e.pause(r.now())}
	case e.loading():
		return failure{why: fmt.Errorf("the model's server is not ready (%w)", e), passing: true, loading: true, after: cmp.Or(e.pause(r.now()), whileLoading)}
	case e.status >= 500 || e.status == http.StatusRequestTimeout:
		return failure{why: fmt.Errorf("the model's server failed (%w)", e), passing: true, after: e.pause(r.now())}
	case e.status < 300:
		return failure{why: fmt.Errorf("the server at %s does not stream %s (%w): check TURNSTILE_MODEL_URL", base, r.provider.api(), e)}
	}
	return failure{why: fmt.Errorf("the model's server refused the request (%w)", e)}
}
