package trace

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"strconv"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The IDs of spans to which others refer from another process are made from names that both know, so nothing of a
// trace is stored but the traceparent of a message.

// turnSpan is the span of a turn.
func turnSpan(turn string) trace.SpanID { return trace.SpanID(sum("turn", turn)[:8]) }

// attemptSpan is the span of one attempt of a delivery. A redrive gives it another sequence, and counts anew.
func attemptSpan(delivery string, sequence int64, attempt int) trace.SpanID {
	return trace.SpanID(sum("delivery", delivery, strconv.FormatInt(sequence, 10), strconv.Itoa(attempt))[:8])
}

// messageTrace is the trace of a message without a traceparent.
func messageTrace(session, message string) trace.TraceID {
	return trace.TraceID(sum("message", session, message)[:16])
}

func sum(parts ...string) []byte {
	h := sha256.New()
	for _, part := range parts {
		h.Write([]byte(part + "\x00"))
	}
	return h.Sum(nil)
}

// chosen are the IDs for the next span; a zero one is random.
type chosen struct {
	trace trace.TraceID
	span  trace.SpanID
}

type chosenKey struct{}

// choose gives the span that is started with the context these IDs.
func choose(ctx context.Context, c chosen) context.Context {
	return context.WithValue(ctx, chosenKey{}, c)
}

// generator implements the SDK's IDGenerator.
type generator struct{}

// NewIDs implements the SDK's IDGenerator, for a span without a parent.
func (g generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	c, _ := ctx.Value(chosenKey{}).(chosen)
	for !c.trace.IsValid() {
		fill(c.trace[:])
	}
	return c.trace, g.NewSpanID(ctx, c.trace)
}

// NewSpanID implements the SDK's IDGenerator, for a span with a parent.
func (generator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	c, _ := ctx.Value(chosenKey{}).(chosen)
	for !c.span.IsValid() {
		fill(c.span[:])
	}
	return c.span
}

func fill(id []byte) {
	for i := range id {
		id[i] = byte(rand.Uint32()) //nolint:gosec // an ID of a span is no secret
	}
}

// remote is the span of a traceparent; it is not valid without one.
func remote(traceparent string) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	return trace.SpanContextFromContext(ctx)
}

// traceparent is the one of a span.
func traceparent(span trace.Span) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), span), carrier)
	return carrier["traceparent"]
}
