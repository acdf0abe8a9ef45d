package trace

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
)

// readPatience bounds the read of a message's traceparent for its delivery.
const readPatience = time.Second

// Request begins the span of a gateway's request, and returns its traceparent. sent is the client's, or "".
func (t *Tracer) Request(sent, route, session, id string, began time.Time) (own string, end func(status int)) {
	method, path, _ := strings.Cut(route, " ")
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), remote(sent))
	_, span := t.tracer.Start(ctx, route, trace.WithTimestamp(began), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		httpMethod.String(method), httpRoute.String(path), ownRequest.String(name(id))))
	if session != "" {
		span.SetAttributes(ownSession.String(session))
	}
	return traceparent(span), func(status int) { ended(span, status, http.StatusInternalServerError) }
}

// ended ends the span of a request that was answered with a status; 0: it was not. From failed on it failed.
func ended(span trace.Span, status, failed int) {
	if status > 0 {
		span.SetAttributes(httpStatus.Int(status))
	}
	if status == 0 || status >= failed {
		span.SetStatus(codes.Error, "")
		kind := "_OTHER"
		if status > 0 {
			kind = strconv.Itoa(status)
		}
		span.SetAttributes(errorType.String(kind))
	}
	span.End()
}

// Deliveries returns the function that begins the span of an attempt to deliver a record, and returns its traceparent. It
// reads the traceparent of the record's message, if Redis still has it.
func (t *Tracer) Deliveries(rdb redis.UniversalClient) func(ctx context.Context, session, destination, id string, sequence int64, attempt int, body []byte) (string, func(status int)) {
	return func(ctx context.Context, session, destination, id string, sequence int64, attempt int, body []byte) (string, func(status int)) {
		var about struct {
			Data struct {
				Messages []string
				Turn     string // of a question, or of what was taken back
				Outcome  struct{ Turn string }
			}
		}
		_ = json.Unmarshal(body, &about) // a deliverer reads it before
		message := ""
		if len(about.Data.Messages) > 0 {
			message = about.Data.Messages[0]
		}
		within := of(session, message, sentWith(ctx, rdb, session, message), attemptSpan(id, sequence, attempt))
		turn := about.Data.Outcome.Turn + about.Data.Turn // it has one of them at most
		if turn != "" {
			within = t.below(within, turnSpan(turn))
		}
		var links []trace.Link
		if attempt > 1 {
			links = append(links, trace.Link{SpanContext: trace.SpanContextFromContext(within).WithSpanID(attemptSpan(id, sequence, attempt-1))})
		}
		_, span := t.tracer.Start(within, "deliver", trace.WithSpanKind(trace.SpanKindClient), trace.WithLinks(links...), trace.WithAttributes(
			httpMethod.String(http.MethodPost), ownDestination.String(destination), ownSession.String(session), ownMessage.String(name(message)),
			ownDelivery.String(id), ownAttempt.Int(attempt)))
		return traceparent(span), func(status int) { ended(span, status, http.StatusMultipleChoices) }
	}
}

// below returns a context whose parent is another process's span of the same trace. A trace of its own is sampled
// as that process has sampled it.
func (t *Tracer) below(ctx context.Context, parent trace.SpanID) context.Context {
	within := trace.SpanContextFromContext(ctx)
	if !within.IsValid() {
		_, probe := t.tracer.Start(ctx, "") // it never ends, so it is not exported
		within = probe.SpanContext()
	}
	return trace.ContextWithRemoteSpanContext(ctx, within.WithSpanID(parent))
}

// sentWith is the traceparent of a message, "" if it has none or is gone.
func sentWith(ctx context.Context, rdb redis.UniversalClient, session, message string) string {
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	text, err := rdb.HGet(ctx, rediskey.For(session).Task(rediskey.TaskID(session, message)), "msg").Bytes()
	if err != nil {
		return ""
	}
	task, err := protocol.ParseTaskMessage(text)
	if err != nil {
		return ""
	}
	return task.TraceParent()
}
