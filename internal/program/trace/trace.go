// Package trace makes OpenTelemetry's spans of requests, waits, turns, tools and deliveries, and sends them by OTLP over
// HTTP. docs/operations.md describes them.
//
// Spans wait in a bounded queue of the SDK. Where the receiver is away or slow they are dropped: nothing waits for it.
// The other packages know only functions that they call where they are given some.
package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"turnstile/internal/version"
)

// stopPatience is how long Stop sends the last spans. It fits into what supervisors wait after a drain.
const stopPatience = time.Second

// textBatch is how many spans with texts are sent at once: receivers refuse large requests.
const textBatch = 64

// retries is how the exporter repeats a failed batch. Meanwhile others wait in the queue.
var retries = otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: 15 * time.Second}

// Tracer makes the spans of one process.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	texts    bool // users' and agents' texts become attributes
}

// Settings is OpenTelemetry's environment.
type Settings struct {
	Disabled, Exporter, Protocol, Texts string
	Endpoint, General                   string // for traces, and for all signals
	Headers                             []string

	// Own reports whether a variable is about traces. The others may be meant for agents.
	Own bool
}

// FromEnvironment reads the settings of this process. The exporter reads others itself.
func FromEnvironment() Settings {
	first := func(names ...string) (value string) {
		for _, name := range names {
			value = cmp.Or(value, strings.TrimSpace(os.Getenv(name)))
		}
		return value
	}
	return Settings{
		Disabled: first("OTEL_SDK_DISABLED"), Exporter: first("OTEL_TRACES_EXPORTER"),
		Protocol: first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"),
		Endpoint: first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), General: first("OTEL_EXPORTER_OTLP_ENDPOINT"),
		Headers: []string{first("OTEL_EXPORTER_OTLP_HEADERS"), first("OTEL_EXPORTER_OTLP_TRACES_HEADERS")},
		Texts:   first("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
		Own:     first("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "",
	}
}

// on reports whether traces are wanted. An error names the setting that this package cannot obey.
func (s Settings) on() (bool, error) {
	if strings.EqualFold(s.Disabled, "true") || s.Exporter == "none" || s.Exporter == "" && s.Endpoint == "" && s.General == "" {
		return false, nil
	}
	switch {
	case s.Exporter != "" && s.Exporter != "otlp":
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER=%.100q: use otlp or none", s.Exporter)
	case s.Protocol != "" && s.Protocol != "http/protobuf":
		return false, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=%.100q: only http/protobuf is there", s.Protocol)
	case !isAddress(s.Endpoint):
		return false, errors.New("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be an http:// or https:// URL")
	case !isAddress(s.General):
		return false, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT must be an http:// or https:// URL")
	case slices.ContainsFunc(s.Headers, unreadable):
		return false, errors.New("OTEL_EXPORTER_OTLP_HEADERS, or OTEL_EXPORTER_OTLP_TRACES_HEADERS, is no list NAME=VALUE,... with values as in URLs")
	}
	return true, nil
}

func isAddress(text string) bool {
	u, err := url.Parse(text)
	return text == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// unreadable reports whether the exporter cannot read a list of headers. It would print what it cannot read.
func unreadable(headers string) bool {
	for one := range strings.SplitSeq(headers, ",") {
		name, value, found := strings.Cut(one, "=")
		if _, err := url.PathUnescape(value); err != nil || !found && one != "" || found && strings.TrimSpace(name) == "" {
			return true
		}
	}
	return false
}

// Start returns the tracer of a process, or nil if its environment wants no traces. It does not connect.
func Start(ctx context.Context, s Settings, service, instance string, log *slog.Logger) (*Tracer, error) {
	if on, err := s.on(); err != nil && !s.Own {
		log.Warn("traces are off", "why", err)
		return nil, nil
	} else if !on {
		return nil, err
	}
	host, _ := os.Hostname()
	instance = cmp.Or(instance, fmt.Sprintf("%s-%d", host, os.Getpid()))
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithRetry(retries))
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.version", version.String()), attribute.String("service.instance.id", instance)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		log.Warn("OTEL_RESOURCE_ATTRIBUTES cannot be read", "error", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("OpenTelemetry failed", "error", err) }))
	texts, _ := strconv.ParseBool(s.Texts)
	var batch []sdk.BatchSpanProcessorOption
	if texts {
		batch = append(batch, sdk.WithMaxExportBatchSize(textBatch))
	}
	t := &Tracer{texts: texts, provider: sdk.NewTracerProvider(sdk.WithBatcher(exporter, batch...), sdk.WithIDGenerator(generator{}), sdk.WithResource(about))}
	t.tracer = t.provider.Tracer("turnstile", trace.WithInstrumentationVersion(version.String()))
	log.Info("traces are exported", "texts", t.texts)
	return t, nil
}

// Stop sends the last spans, for at most 1 s, and never longer than ctx.
func (t *Tracer) Stop(ctx context.Context, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		log.Warn("OpenTelemetry failed", "in", "the last export", "error", err)
	}
}

// of returns a context in which a span belongs to a message: to the span that sent it, or to the message's own trace.
func of(session, message, sent string, span trace.SpanID) context.Context {
	c := chosen{span: span}
	parent := remote(sent)
	if !parent.IsValid() {
		c.trace = messageTrace(session, message)
	}
	return choose(trace.ContextWithRemoteSpanContext(context.Background(), parent), c)
}

// name bounds and repairs a name that an agent or a user has chosen: one bad byte would lose the batch.
func name(text string) string { return cut(text, 200) }

func cut(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	return strings.ToValidUTF8(text, "")
}
