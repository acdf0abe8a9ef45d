package worker

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Activities at given times lead to checkpoints at the expected times: after text once an
// interval, after a tool's end at once, but a tenth of the interval after the last one.
func TestCheckpointsAfterTools(t *testing.T) {
	t.Parallel()
	type did struct {
		at time.Duration
		activity
	}
	for name, c := range map[string]struct {
		did  []did
		want []time.Duration
	}{
		"text": {[]did{{1 * time.Second, someText}, {2 * time.Second, someText}, {16 * time.Second, someText}},
			[]time.Duration{15 * time.Second, 30 * time.Second}},
		"a tool": {[]did{{100 * time.Millisecond, toolEnded}}, []time.Duration{100 * time.Millisecond}},
		"a tool before a text's checkpoint": {[]did{{1 * time.Second, someText}, {2 * time.Second, toolEnded}},
			[]time.Duration{2 * time.Second}},
		"a text behind a tool": {[]did{{2 * time.Second, toolEnded}, {3 * time.Second, someText}},
			[]time.Duration{2 * time.Second, 17 * time.Second}},
		"many tools": {[]did{{1 * time.Second, toolEnded}, {1100 * time.Millisecond, toolEnded}, {1200 * time.Millisecond, toolEnded},
			{2 * time.Second, toolEnded}, {10 * time.Second, toolEnded}},
			[]time.Duration{1 * time.Second, 2500 * time.Millisecond, 10 * time.Second}},
		"nothing": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var taken []time.Duration
				k := checkpoints{
					storing:  newOneAtATime(),
					interval: 15 * time.Second, began: began, store: func() { taken = append(taken, time.Since(began)) },
					containment: containment{slog.New(slog.DiscardHandler), func(cause error) { t.Errorf("failed: %v", cause) }},
				}
				for _, d := range c.did {
					time.Sleep(time.Until(began.Add(d.at))) // the bubble's clock
					k.after(d.activity)
					synctest.Wait()
				}
				time.Sleep(time.Hour)
				k.stop()
				if !slices.Equal(taken, c.want) {
					t.Errorf("checkpoints at %s, want %s", taken, c.want)
				}
				k.after(toolEnded)
				time.Sleep(time.Hour)
				if len(taken) != len(c.want) {
					t.Error("a checkpoint behind the end")
				}
			})
		})
	}
}

// A drain's checkpoint is taken at once, if there is anything new.
func TestCheckpointBeforeTheInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		taken := 0
		k := checkpoints{
			storing:  newOneAtATime(),
			interval: time.Hour, began: time.Now(), store: func() { taken++ },
			containment: containment{slog.New(slog.DiscardHandler), context.CancelCauseFunc(func(error) {})},
		}
		k.now()
		synctest.Wait()
		if taken != 0 {
			t.Error("a checkpoint of nothing")
		}
		k.after(someText)
		k.now()
		synctest.Wait()
		if taken != 1 {
			t.Errorf("%d checkpoints of a text", taken)
		}
		k.stop()
	})
}
