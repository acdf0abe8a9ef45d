package trace

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
)

// The bounds of a turn's spans: an agent may use any number of tools, and write any text.
const (
	mostTools = 1000
	mostText  = 16 << 10
)

// turn is the span of a running turn. The worker makes its calls one after the other.
type turn struct {
	*Tracer
	ctx    context.Context // with the span
	span   trace.Span
	tools  map[string]trace.Span // by call ID, that have not ended
	number int                   // of tools
	used   session.Usage
	said   strings.Builder
}

// TurnBegan implements worker.Tracer.
func (t *Tracer) TurnBegan(b worker.TurnBegin) worker.TurnTrace {
	first := b.Messages[0]
	turnID := trace.WithAttributes(ownSession.String(b.Session), ownTurn.String(b.Turn))
	var links []trace.Link
	for i, m := range b.Messages {
		ctx := of(b.Session, m.ID, m.TraceParent, trace.SpanID{})
		if m.First {
			_, wait := t.tracer.Start(ctx, "wait", trace.WithTimestamp(b.Began.Add(-m.Waited)), turnID, trace.WithAttributes(ownMessage.String(name(m.ID))))
			wait.End(trace.WithTimestamp(b.Began))
		}
		if sent := remote(m.TraceParent); i > 0 && sent.IsValid() {
			links = append(links, trace.Link{SpanContext: sent})
		}
	}
	ctx := of(b.Session, first.ID, first.TraceParent, turnSpan(b.Turn))
	if b.Before != "" {
		within := remote(first.TraceParent).TraceID()
		if !within.IsValid() {
			within = messageTrace(b.Session, first.ID)
		}
		links = append(links, trace.Link{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: within, SpanID: turnSpan(b.Before), TraceFlags: trace.FlagsSampled, Remote: true,
		}), Attributes: []attribute.KeyValue{ownTurn.String(b.Before)}})
	}
	ctx, span := t.tracer.Start(ctx, invokeAgent+" "+name(b.Agent), trace.WithTimestamp(b.Began), trace.WithLinks(links...), turnID, trace.WithAttributes(
		genaiOperation.String(invokeAgent), genaiAgent.String(name(b.Agent)), genaiConversation.String(b.TranscriptID),
		ownMessage.String(name(first.ID)), ownAttempt.Int(b.Attempt),
	))
	if t.texts && span.IsRecording() {
		var all []said
		left := mostText // of all messages
		for _, m := range b.Messages {
			text := cut(m.Text, left)
			left -= len(text)
			all = append(all, says("user", text))
		}
		span.SetAttributes(genaiInputMessages.String(encoded(all)))
	}
	return &turn{Tracer: t, ctx: choose(ctx, chosen{}), span: span, tools: map[string]trace.Span{}}
}

// TraceParent implements worker.TurnTrace.
func (t *turn) TraceParent() string { return traceparent(t.span) }

// Event implements worker.TurnTrace.
func (t *turn) Event(e agent.Event) {
	if !t.span.IsRecording() {
		return
	}
	switch e.Type {
	case session.EventToolStart:
		t.starts(e)
	case session.EventToolEnd:
		tool := t.tools[e.CallID]
		if tool == nil {
			return
		}
		if e.Error != "" {
			tool.SetStatus(codes.Error, "")
			tool.SetAttributes(errorType.String("_OTHER")) // its text may have anything
		}
		if t.texts && e.Output != nil {
			tool.SetAttributes(genaiToolResult.String(cut(string(e.Output), mostText)))
		}
		tool.End()
		delete(t.tools, e.CallID)
	case session.EventUsage:
		t.used = t.used.Plus(*e.Usage)
	case session.EventText:
		if t.texts && t.said.Len() < mostText {
			t.said.WriteString(e.Text)
		}
	}
}

func (t *turn) starts(e agent.Event) {
	if t.number++; t.number > mostTools {
		return
	}
	_, tool := t.tracer.Start(t.ctx, executeTool+" "+name(e.Name), trace.WithAttributes(
		genaiOperation.String(executeTool), genaiTool.String(name(e.Name)), genaiToolCall.String(name(e.CallID))))
	if t.texts && e.Input != nil {
		tool.SetAttributes(genaiToolArguments.String(cut(string(e.Input), mostText)))
	}
	if before := t.tools[e.CallID]; before != nil {
		before.End()
	}
	if t.tools[e.CallID] = tool; e.Client { // its program carries it out, later
		tool.End()
		delete(t.tools, e.CallID)
	}
}

// failures are the ends of turns that are errors. A drain, a stop, an interrupt and a wait are none.
var failures = map[session.Status]bool{session.StatusFailed: true, session.StatusExpired: true, worker.StatusRetried: true, worker.StatusLost: true}

// Ended implements worker.TurnTrace.
func (t *turn) Ended(end worker.TurnEnd) {
	failed := failures[end.Status]
	for _, tool := range t.tools {
		if failed {
			tool.SetStatus(codes.Error, "")
			tool.SetAttributes(errorType.String(string(end.Status)))
		}
		tool.End()
	}
	t.span.SetAttributes(ownStatus.String(string(end.Status)))
	if t.used != (session.Usage{}) {
		t.span.SetAttributes(genaiInput.Int64(t.used.InputTokens), genaiCached.Int64(t.used.CachedTokens), genaiOutput.Int64(t.used.OutputTokens))
		if t.used.Model != "" {
			t.span.SetAttributes(genaiModel.String(name(t.used.Model)))
		}
		if t.used.CostUSD != 0 {
			t.span.SetAttributes(ownCost.Float64(t.used.CostUSD))
		}
	}
	if t.said.Len() > 0 {
		t.span.SetAttributes(genaiOutputMessages.String(encoded([]said{says("assistant", t.said.String())})))
	}
	if failed { // the text of end.Err may have anything
		t.span.SetStatus(codes.Error, "")
		t.span.SetAttributes(errorType.String(cmp.Or(end.Code, string(end.Status))))
	}
	t.span.End(trace.WithTimestamp(time.Now()))
}

// said is a message in the form of the conventions.
type said struct {
	Role  string `json:"role"`
	Parts []part `json:"parts"`
}

type part struct {
	Type    string `json:"type"`
	Content string `json:"content"`
}

func says(role, text string) said { return said{role, []part{{"text", cut(text, mostText)}}} }

func encoded(all []said) string {
	text, _ := json.Marshal(all) //nolint:errchkjson // strings
	return string(text)
}
