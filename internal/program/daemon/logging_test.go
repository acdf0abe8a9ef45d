package daemon

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"turnstile/internal/program/config"
)

// A JSON log has durations in seconds, a text log in Go's notation.
func TestDurationsInLogs(t *testing.T) { //nolint:paralleltest // NewLogger redirects the logs of other packages
	write := func(format config.LogFormat) string {
		var out bytes.Buffer
		log := NewLogger(&out, slog.LevelInfo, format).With("interval", 15*time.Second)
		log.Info("turn ended", "duration", 2013*time.Millisecond, "wait", 4*time.Millisecond,
			slog.Group("retry", "in", 90*time.Second), "attempt", 1, "after", 2595*time.Millisecond-400*time.Nanosecond)
		return out.String()
	}
	var line struct {
		Interval, Duration, Wait float64
		Retry                    struct{ In float64 }
		Attempt                  int
	}
	text := write(config.LogJSON)
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if line.Interval != 15 || line.Duration != 2.013 || line.Wait != 0.004 || line.Retry.In != 90 || line.Attempt != 1 {
		t.Errorf("the JSON line is %s", text)
	}
	if !strings.Contains(text, `"after":2.595}`) {
		t.Errorf("a duration is not rounded to milliseconds: %s", text)
	}
	if text := write(config.LogText); !strings.Contains(text, "interval=15s duration=2.013s wait=4ms retry.in=1m30s attempt=1") {
		t.Errorf("the text line is %s", text)
	}
}
