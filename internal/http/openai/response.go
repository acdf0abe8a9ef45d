package openai

import (
	"context"
	"errors"
	"time"

	"turnstile"
	"turnstile/pkg/session"
)

// response is OpenAI's response object.
type response struct {
	ID         string  `json:"id"`
	Object     string  `json:"object"`
	CreatedAt  int64   `json:"created_at"`
	Completed  *int64  `json:"completed_at"` // of a completed one
	Status     string  `json:"status"`
	Background bool    `json:"background"`
	Error      *reason `json:"error"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Instructions *string   `json:"instructions"`
	MaxTokens    *int64    `json:"max_output_tokens"`
	Model        string    `json:"model"`
	Output       []any     `json:"output"`
	Parallel     bool      `json:"parallel_tool_calls"`
	Previous     *string   `json:"previous_response_id"`
	Conversation reference `json:"conversation"`
	settings
	ToolChoice any               `json:"tool_choice"`
	Tools      []any             `json:"tools"`
	Store      bool              `json:"store"`
	Usage      *usage            `json:"usage"`
	Metadata   map[string]string `json:"metadata"`
	Message    string            `json:"turnstile_message"` // the message's ID in /v1/sessions
}

// settings are fields that Open Responses requires. Those that a request cannot set, or has not, are null or the
// default: the agent has its own.
type settings struct {
	Temperature      float64        `json:"temperature"`
	TopP             float64        `json:"top_p"`
	PresencePenalty  float64        `json:"presence_penalty"`
	FrequencyPenalty float64        `json:"frequency_penalty"`
	TopLogprobs      int64          `json:"top_logprobs"`
	MaxToolCalls     *int64         `json:"max_tool_calls"`
	Truncation       string         `json:"truncation"`
	Text             map[string]any `json:"text"`
	Reasoning        *string        `json:"reasoning"`
	ServiceTier      string         `json:"service_tier"`
	Safety           *string        `json:"safety_identifier"`
	PromptCacheKey   *string        `json:"prompt_cache_key"`
}

func defaults() settings {
	return settings{Temperature: 1, TopP: 1, Truncation: "disabled", Text: map[string]any{"format": responseFormat{Type: "text"}}, ServiceTier: "default"}
}

type reference struct {
	ID string `json:"id"`
}

// reason is why a response failed. OpenAI's has only code and message. The AI SDK cannot read one without
// a type, and decides by it whether to repeat the request.
type reason struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"` // null
	Failure string  `json:"turnstile_code,omitempty"`
}

type usage struct {
	Input        int64 `json:"input_tokens"`
	InputDetails struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Output        int64 `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int64 `json:"total_tokens"`
}

// The statuses of a response.
const (
	queued     = "queued"
	inProgress = "in_progress"
	completed  = "completed"
	cancelled  = "cancelled"
	failed     = "failed"
	incomplete = "incomplete"
)

// modelName is the model of requests that name none.
const modelName = "turnstile"

// begun is the response of a message before its first turn.
func (p place) begun(m session.Message, accepted time.Time) response {
	o, metadata := originOf(m)
	r := response{
		ID: p.id(), Object: "response", CreatedAt: accepted.Unix(), Status: queued, Background: o.Background, Model: o.Model, Output: []any{},
		Parallel: true, Conversation: reference{p.session}, ToolChoice: "none", Tools: []any{}, Store: !o.Temporary, Metadata: metadata, Message: p.message, settings: defaults(),
	}
	if r.Model == "" {
		r.Model = modelName
	}
	if o.Previous != "" {
		r.Previous = &o.Previous
	}
	if m.Request != nil {
		request(*m.Request).echo(&r)
	}
	return r
}

// ended is the response of a message that ended at a time.
func (r response) ended(o session.Outcome, at time.Time, output []any) response {
	r.Output = output
	switch o.Status {
	case session.StatusDone:
		if o.Code == session.CodeLength {
			r.unfinished("max_output_tokens")
			break
		}
		seconds := at.Unix()
		r.Status, r.Completed = completed, &seconds
	case session.StatusStopped:
		r.Status = cancelled
	case session.StatusInterrupted:
		r.unfinished("interrupted")
	default:
		p := turnProblem(o)
		r.Status, r.Error = failed, &reason{Code: p.Code, Message: p.Message, Type: p.Type, Failure: p.Failure}
	}
	if u := o.Usage; u != nil {
		r.Usage = &usage{Input: u.InputTokens, Output: u.OutputTokens, Total: u.InputTokens + u.OutputTokens}
		r.Usage.InputDetails.Cached = u.CachedTokens
	}
	return r
}

// unfinished ends a response with a part of its output.
func (r *response) unfinished(why string) {
	r.Status = incomplete
	r.Incomplete = &struct {
		Reason string `json:"reason"`
	}{why}
}

// stored is the response of a message as it is stored now.
func (a *API) stored(ctx context.Context, p place, m turnstile.StoredMessage) (response, error) {
	r := p.begun(m.Message, m.AcceptedAt)
	switch {
	case m.Outcome != nil:
		output, err := a.output(ctx, *m.Outcome)
		if err != nil {
			return r, err
		}
		at, err := a.endOf(ctx, p, m)
		return r.ended(*m.Outcome, at, output), err
	case m.State == session.MessageRunning || m.State == session.MessageRetry:
		r.Status = inProgress
		question, err := a.openQuestion(ctx, p)
		if err != nil {
			return r, err
		}
		if question != nil {
			r.Output = append(r.Output, *question)
		}
	}
	return r, nil
}

// endOf returns when a message ended, which a wait, or a stream that lost the end, does not know. If
// the result is not kept, the message ended just now.
func (a *API) endOf(ctx context.Context, p place, m turnstile.StoredMessage) (time.Time, error) {
	if !m.EndedAt.IsZero() {
		return m.EndedAt, nil
	}
	m, err := a.client.Session(p.session).Message(ctx, p.message)
	if errors.Is(err, session.ErrNotFound) || err == nil && m.EndedAt.IsZero() {
		return a.bodies.Now(ctx)
	}
	return m.EndedAt, err
}
