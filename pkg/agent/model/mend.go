package model

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// mendings are what was changed in the requests of one response, after refusals.
type mendings struct {
	shrunk bool
	told   []string // to the model, of replies that the server could not read
}

// mostTold is how often the model learns so for one response.
const mostTold = 2

// mend changes the turn's requests after a refusal, so that the next one may be accepted, and reports whether it did.
func (r *run) mend(e *statusError) bool {
	switch {
	case e.mayBeOfImages() && r.blind():
		r.log.Debug("the server refuses a request with images: those of the history are sent as names", "error", r.explain(e).why)
	case e.tooLong() && !r.mended.shrunk && r.shrink():
		r.mended.shrunk = true
		r.log.Debug("the request is too long for the model: a half of the history is left out", "error", r.explain(e).why, "kept", len(r.history))
	case e.ofTheReply() && len(r.mended.told) < mostTold:
		r.tell(fmt.Sprintf("[Your reply could not be used: %s%s Call only tools that you have, with arguments that are a JSON object, or reply without a tool.]", e.message, e.quoted()))
		r.log.Debug("the server could not read the model's call of a tool: the model learns it", "error", r.explain(e).why)
	case e.mentions("a length of 9", "with length 9") && !r.request.ShortIDs:
		r.request.ShortIDs = true
	case e.mentions("unsupported", "not permitted", "extra_forbidden", "unexpected", "unknown field", "unrecognized") && !r.request.Bare && r.request.Fill == "" && r.sendsBack():
		r.request.Bare = true
	case e.mentions("reasoning_content", "thought_signature", "thought signature") && e.mentions("missing", "must", "required") && !r.request.Bare && r.request.Fill == "":
		r.request.Fill = fillThoughts
		if !e.mentions("reasoning_content") {
			r.request.Fill = fillSignature
		}
	default:
		return false
	}
	return true
}

// demands are what a server has demanded of the turn's requests by refusing others.
type demands struct {
	ShortIDs bool   `json:"short_ids,omitempty"` // IDs of nine letters and digits
	Bare     bool   `json:"bare,omitempty"`      // messages without the fields that it has sent before
	Fill     string `json:"fill,omitempty"`      // a field that replies of another model lack
}

// The values of Fill: DeepSeek and Kimi miss thoughts, Gemini a call's signature, in place of which it accepts this one.
const (
	fillThoughts  = "reasoning_content"
	fillSignature = "thought_signature"
)

// fill returns the fields that an assistant's messages and their first calls have at least.
func (d demands) fill() (message, call fields) {
	switch d.Fill {
	case fillThoughts:
		message = fields{"reasoning_content": json.RawMessage(`""`)}
	case fillSignature:
		call = fields{"extra_content": json.RawMessage(`{"google":{"thought_signature":"skip_thought_signature_validator"}}`)}
	}
	return message, call
}

// sendsBack reports whether the turn's requests have fields that the server has sent before.
func (r *run) sendsBack() bool {
	return slices.ContainsFunc(r.next().messages, func(m message) bool {
		return m.from == r.origin() && (len(m.fields) > 0 || slices.ContainsFunc(m.calls, func(c toolCall) bool { return len(c.fields) > 0 }))
	})
}

// tell adds a text for the model to the turn's messages.
func (r *run) tell(text string) {
	r.mended.told = append(r.mended.told, text)
	r.present = append(r.present, message{role: roleUser, text: text})
}

// shrink leaves out the older half of the history, and reports whether there was one.
func (r *run) shrink() bool {
	tokens, half := 0, 0
	for _, b := range r.history {
		half += b.tokens / 2
	}
	from, most := 0, len(r.history)-r.brought
	for from < most && (tokens < half || r.history[from].messages[0].role != roleUser) {
		tokens += r.history[from].tokens
		from++
	}
	if from > 0 {
		r.leave(r.history[from-1].place)
	}
	return from > 0
}

// mayBeOfImages reports whether an error may be one about an image. Servers name it in many ways or not at all, with many statuses.
func (e *statusError) mayBeOfImages() bool {
	switch {
	case e.status >= 500:
		return e.mentions("image", "vision", "multimodal", "mmproj")
	case e.status == http.StatusUnauthorized || e.status == http.StatusRequestTimeout || e.status == http.StatusTooManyRequests:
		return false
	}
	return e.status >= 400 || e.mentions("image")
}

// ofTheReply reports whether the server could not read what the model has written.
func (e *statusError) ofTheReply() bool {
	return e.mentions("tool_use_failed", "tool call validation failed", "failed to parse tool call", "error parsing tool call")
}

// overflows are the words of servers for a request that does not fit into the model.
var overflows = []string{
	"context_length_exceeded", "exceed_context_size", "model_max_prompt_tokens_exceeded", "tokens_limit_reached", "string_above_max_length",
	"context length", "context window", "context_window", "context size", "context overflow", "reduce the length", "maximum model length",
	"prompt is too long", "input is too long", "maximum prompt length", "maximum input length", "too many tokens", "token limit",
	"input token count", "prompt token count", "exceeds max length", "range of input length", "exceed max message tokens", "max input characters",
	"must have less than", "`inputs` tokens", "超长",
}

// overflow is what their words have in common, for servers that are not known.
var overflow = regexp.MustCompile(`(context|prompt|input|message|messages|conversation|history|request|tokens)\b.{0,80}\b(too (long|large|big|many)|exceed\w*|(longer|greater|larger|more) than|over)\b.{0,80}\b(tokens?|length|limit|maximum|context|window|characters|model)\b`)

// tooLong reports whether the request did not fit into the model.
func (e *statusError) tooLong() bool {
	switch e.status {
	case http.StatusRequestEntityTooLarge:
		return true
	case http.StatusTooManyRequests: // OpenAI's, for one that is larger than the limit of a minute
		return e.mentions("request too large", "tokens must be reduced")
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return false
	}
	if e.status != 0 && e.status < 400 || e.mentions("max_tokens", "max_completion_tokens", "per minute") && !e.mentions("context") {
		return false
	}
	text := strings.ToLower(e.code + " " + e.message)
	return slices.ContainsFunc(overflows, func(words string) bool { return strings.Contains(text, words) }) || e.status != 0 && e.status < 500 && overflow.MatchString(text)
}

// loading reports whether the server is about to be ready.
func (e *statusError) loading() bool {
	return e.status == http.StatusServiceUnavailable && e.mentions("loading")
}
