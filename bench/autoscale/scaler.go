package main

import (
	"math"
	"time"
)

// The HorizontalPodAutoscaler's defaults (kube-controller-manager's flags and autoscaling/v2's behavior), with the
// chart's windows.
const (
	syncPeriod = 15 * time.Second
	tolerance  = 0.1
	downWindow = 5 * time.Minute
	upPods     = 4 // or twice as many, whichever is more, in each period
)

// scaler decides as the HorizontalPodAutoscaler does for a metric of the type AverageValue.
type scaler struct {
	target float64 // for each pod
	least  int
	most   int
	recent []recommended
}

type recommended struct {
	at   time.Duration
	pods int
}

// decide returns how many pods there should be, of a metric and the number of pods now.
func (s *scaler) decide(at time.Duration, metric float64, now int) int {
	want := now
	if now == 0 || math.Abs(metric/(s.target*float64(now))-1) > tolerance {
		want = int(math.Ceil(metric / s.target))
	}
	s.recent = append(s.recent, recommended{at, want})
	for len(s.recent) > 0 && s.recent[0].at <= at-downWindow {
		s.recent = s.recent[1:]
	}
	if want < now { // the highest recommendation of the window holds
		for _, r := range s.recent {
			want = max(want, r.pods)
		}
		want = min(want, now)
	}
	want = min(want, max(2*now, now+upPods))
	return min(max(want, s.least), s.most)
}
