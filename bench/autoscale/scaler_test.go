package main

import (
	"testing"
	"time"
)

func TestScalerDecidesAsTheHPA(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		metric float64
		now    int
		want   int
	}{
		{"enough", 8, 2, 2},
		{"within the tolerance", 8.7, 2, 2},
		{"one more", 9, 2, 3},
		{"a burst: four more", 400, 1, 5},
		{"a burst: twice as many", 400, 10, 20},
		{"at most", 400, 35, 40},
		{"at least", 0, 1, 1},
	} {
		s := scaler{target: 4, least: 1, most: 40}
		if got := s.decide(0, c.metric, c.now); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// Pods are taken away when the load has been low for the whole window.
func TestScalerWaitsBeforeItScalesDown(t *testing.T) {
	t.Parallel()
	s := scaler{target: 4, least: 1, most: 40}
	for at := time.Duration(0); at < downWindow; at += syncPeriod {
		metric := 4.0
		if at == 0 {
			metric = 40
		}
		if got := s.decide(at, metric, 10); got != 10 {
			t.Fatalf("after %s: %d", at, got)
		}
	}
	if got := s.decide(downWindow, 4, 10); got != 1 {
		t.Errorf("after the window: %d", got)
	}
}
