package modelserver

import (
	"net/http"
	"strings"
	"time"
)

// Response is the response to one request. The constructors make them.
type Response struct {
	steps  []Step
	status int    // 0: none is sent, because of a cut or a hang
	body   []byte // not nil: it is the response, and there are no steps
	header http.Header
}

// Stream responds with a stream of these steps if the client asks for one, else with one JSON
// object of all of them. It ends with finish_reason stop, or tool_calls if there is a Call; Finish
// sets another.
func Stream(steps ...Step) Response { return Response{status: http.StatusOK, steps: steps} }

// Reply is Stream with this text, one word a chunk.
func Reply(text string) Response { return Stream(Text(strings.SplitAfter(text, " ")...)) }

// Error responds with an error in OpenAI's form.
func Error(status int, code, message string) Response {
	return Response{status: status, body: encode(object{"error": object{
		"message": message, "type": "invalid_request_error", "param": nil, "code": code,
	}})}
}

// Plain responds with a status and a body, such as a proxy's.
func Plain(status int, contentType, body string) Response {
	return Response{status: status, body: []byte(body), header: http.Header{"Content-Type": {contentType}}}
}

// RateLimited is a 429. retryAfter is the header's value: seconds, or a date of HTTPDate; empty:
// there is none.
func RateLimited(retryAfter string) Response {
	return Error(http.StatusTooManyRequests, "rate_limit_exceeded", "Rate limit reached for requests.").RetryAfter(retryAfter)
}

// RetryAfter adds that header, unless value is empty.
func (a Response) RetryAfter(value string) Response {
	a.header = a.header.Clone()
	if value == "" {
		return a
	}
	if a.header == nil {
		a.header = http.Header{}
	}
	a.header.Set("Retry-After", value)
	return a
}

// HTTPDate is a time in the form of headers, in whole seconds.
func HTTPDate(at time.Time) string { return at.UTC().Format(http.TimeFormat) }

// ContextTooLong is a 400 with the code context_length_exceeded.
func ContextTooLong() Response {
	return Error(http.StatusBadRequest, "context_length_exceeded",
		"This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.")
}

// Unauthorized is a 401.
func Unauthorized() Response {
	return Error(http.StatusUnauthorized, "invalid_api_key", "Incorrect API key provided.")
}

// CutBefore closes the connection before the first byte of a response.
func CutBefore() Response { return Response{steps: []Step{Cut()}} }

// HangBefore sends no byte until the client goes away.
func HangBefore() Response { return Response{steps: []Step{Hang()}} }

// Step is a part of a stream.
type Step struct {
	kind   kind
	field  string // of a delta
	pieces []string
	id     string
	name   string
	wait   <-chan struct{}
	do     func()
	usage  object
}

type kind int

const (
	kindDelta kind = iota
	kindCall
	kindUsage
	kindFinish
	kindRaw
	kindWait
	kindDo
	kindCut
	kindHang
)

// Text is pieces of the reply, each in a separate chunk.
func Text(pieces ...string) Step { return Delta("content", pieces...) }

// Thought is pieces of reasoning_content, the field of DeepSeek and vLLM.
func Thought(pieces ...string) Step { return Delta("reasoning_content", pieces...) }

// Delta is pieces of another field of the delta: refusal, reasoning.
func Delta(field string, pieces ...string) Step {
	return Step{kind: kindDelta, field: field, pieces: pieces}
}

// Call is a tool call, with its arguments in these fragments. An empty id is left out.
func Call(id, name string, fragments ...string) Step {
	return Step{kind: kindCall, id: id, name: name, pieces: fragments}
}

// Use sets the usage, which a stream reports only on request.
func Use(prompt, completion int) Step { return UseCached(prompt, 0, completion) }

// UseCached is Use with a part of the prompt from the cache.
func UseCached(prompt, cached, completion int) Step {
	return Step{kind: kindUsage, usage: object{
		"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
		"prompt_tokens_details": object{"cached_tokens": cached},
	}}
}

// Finish sets the finish_reason: length, content_filter.
func Finish(reason string) Step { return Step{kind: kindFinish, name: reason} }

// Raw is text of the stream, with its newlines: "data: {\n\n".
func Raw(text string) Step { return Step{kind: kindRaw, pieces: []string{text}} }

// Wait continues when gate is closed or sends something.
func Wait(gate <-chan struct{}) Step { return Step{kind: kindWait, wait: gate} }

// Do calls f at this point, when everything before has been sent.
func Do(f func()) Step { return Step{kind: kindDo, do: f} }

// Cut closes the connection in mid-stream. Later steps are not sent.
func Cut() Step { return Step{kind: kindCut} }

// Hang sends nothing more until the client goes away.
func Hang() Step { return Step{kind: kindHang} }
