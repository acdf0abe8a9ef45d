package model

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

// anthropic is the provider of servers with the Messages API.
type anthropic struct {
	*Agent
	messages sdk.MessageService
}

// doer is the agent's client, which the SDK sends its requests with.
type doer struct{ *Agent }

// Do implements option.HTTPClient.
func (d doer) Do(req *http.Request) (*http.Response, error) {
	resp, err := d.do(req)
	if err != nil {
		return nil, err
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "application/json" || kind == "text/html" {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a part of it is enough
		return nil, newStatusError(resp.StatusCode, resp.Header, text)
	}
	return resp, nil
}

// newAnthropic makes a service without a client, whose options would read ANTHROPIC_* variables.
func newAnthropic(a *Agent) anthropic {
	options := []option.RequestOption{
		option.WithBaseURL(a.base.String()), option.WithHTTPClient(doer{a}), option.WithMaxRetries(0), option.WithoutOpenTelemetry(),
	}
	if a.config.Key != "" {
		options = append(options, option.WithAPIKey(a.config.Key))
	}
	return anthropic{a, sdk.NewMessageService(options...)}
}

// api implements provider.
func (anthropic) api() string { return "the Messages API" }

// ask implements provider.
func (p anthropic) ask(ctx context.Context, r *run, q request, a *completion) error {
	var options []option.RequestOption
	if r.turn.TraceParent != "" {
		options = append(options, option.WithHeader("Traceparent", r.turn.TraceParent))
	}
	stream := p.messages.NewStreaming(ctx, p.params(q), options...)
	defer stream.Close()
	a.heard(r)
	s := messageStream{run: r, reply: a, calls: map[int64]int{}}
	for stream.Next() {
		e := stream.Current()
		s.event(e)
		a.heard(r)
		switch {
		case a.size > r.maxCompletion:
			return errTooMuch
		case e.Type == "message_stop":
			s.keep()
			return nil
		}
	}
	s.keep()
	var failed *sdk.Error
	if err := stream.Err(); !errors.As(err, &failed) {
		return err
	}
	return newStatusError(refusals[failed.Type()], nil, []byte(failed.RawJSON()))
}

// refusals are the statuses of the errors in a stream that the same request gets again. All others pass.
var refusals = map[sdk.ErrorType]int{
	sdk.ErrorTypeInvalidRequestError: http.StatusBadRequest,
	sdk.ErrorTypeAuthenticationError: http.StatusUnauthorized,
	sdk.ErrorTypeBillingError:        http.StatusPaymentRequired,
	sdk.ErrorTypePermissionError:     http.StatusForbidden,
	sdk.ErrorTypeNotFoundError:       http.StatusNotFound,
}
