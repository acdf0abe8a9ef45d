package trace_test

import (
	"log/slog"
	"strings"
	"testing"

	"turnstile/internal/program/trace"
	"turnstile/test/expect"
)

// Traces are off unless the environment wants them. A setting that cannot be obeyed is named.
func TestSettings(t *testing.T) {
	t.Parallel()
	const endpoint = "http://127.0.0.1:4318"
	for name, c := range map[string]struct {
		s     trace.Settings
		on    bool
		wrong string
	}{
		"nothing":        {trace.Settings{}, false, ""},
		"endpoint":       {trace.Settings{Endpoint: endpoint}, true, ""},
		"exporter":       {trace.Settings{Exporter: "otlp"}, true, ""},
		"none":           {trace.Settings{Exporter: "none", Endpoint: endpoint}, false, ""},
		"disabled":       {trace.Settings{Disabled: "TRUE", Endpoint: endpoint}, false, ""},
		"protocol":       {trace.Settings{Protocol: "http/protobuf", Endpoint: endpoint}, true, ""},
		"another":        {trace.Settings{Own: true, Exporter: "zipkin"}, false, "OTEL_TRACES_EXPORTER"},
		"all signals":    {trace.Settings{General: endpoint, Headers: []string{"authorization=Bearer%20secret,x=y", ""}}, true, ""},
		"gRPC":           {trace.Settings{Own: true, Protocol: "grpc", Endpoint: endpoint}, false, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		"agents' gRPC":   {trace.Settings{Protocol: "grpc", General: endpoint}, false, ""},
		"no URL":         {trace.Settings{Own: true, Endpoint: "collector:4318"}, false, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		"a secret in it": {trace.Settings{Own: true, General: "tcp://user:secret@collector"}, false, "OTEL_EXPORTER_OTLP_ENDPOINT"},
		"a header":       {trace.Settings{Own: true, Endpoint: endpoint, Headers: []string{"Authorization: Bearer secret"}}, false, "OTEL_EXPORTER_OTLP_HEADERS"},
		"its value":      {trace.Settings{Own: true, Endpoint: endpoint, Headers: []string{"", "a=secret%zz"}}, false, "OTEL_EXPORTER_OTLP_HEADERS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made, err := trace.Start(t.Context(), c.s, "test", "", slog.New(slog.DiscardHandler))
			expect.Equal(t, "on", made != nil, c.on)
			if made != nil {
				made.Stop(t.Context(), slog.New(slog.DiscardHandler))
			}
			switch {
			case c.wrong == "":
				expect.OK(t, err)
			case err == nil || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "secret"):
				t.Errorf("the error is %v", err)
			}
		})
	}
}
