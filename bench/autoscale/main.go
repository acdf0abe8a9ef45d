// Command autoscale replays a day of a chat's load, with a burst of 20 times its peak, through the formulas of KEDA's
// metrics-api and Kubernetes' HorizontalPodAutoscaler. The pods are real workers, started and drained in this process,
// on a real Redis. Time is compressed: a second of the day takes 1/speed s, also the drain's timeout. The other settings
// are as always, and so is the time of Turnstile itself: a millisecond of it counts as speed ms of the day. Then the same
// day runs with a fixed number of workers, as many as there were on average.
//
// The load that the autoscaler reads is what GET /scale says, but for the running turns: those come from the workers
// themselves, because a heartbeat of 5 s would be minutes of the day.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"turnstile/bench/internal/lab"
)

var (
	speed  = flag.Float64("speed", 120, "how many times faster than the clock the day is")
	slots  = flag.Int("slots", 4, "slots of a worker")
	most   = flag.Int("max", 40, "workers at most")
	peak   = flag.Float64("peak", 0.1, "messages a second at noon; at midnight a tenth of it")
	turn   = flag.Duration("turn", 20*time.Second, "a turn's length on average; exponential, at most 12 times that")
	drain  = flag.Duration("drain", time.Minute, "TURNSTILE_DRAIN_TIMEOUT")
	hours  = flag.Float64("hours", 6, "how much of the day, around the burst; 24: all of it")
	starts = flag.Duration("starts", 10*time.Second, "how long a pod needs to start")
)

const (
	burst    = 20 // times the peak
	burstAt  = 14 * time.Hour
	burstFor = 10 * time.Minute
)

// real is how long a time of the day takes here.
func real(d time.Duration) time.Duration { return time.Duration(float64(d) / *speed) }

// day is the time of the day after a time here.
func day(d time.Duration) time.Duration { return time.Duration(float64(d) * *speed) }

// rate is the messages a second at a time of the day.
func rate(at time.Duration) float64 {
	if at >= burstAt && at < burstAt+burstFor {
		return burst * *peak
	}
	return *peak * (0.55 - 0.45*math.Cos(2*math.Pi*at.Hours()/24))
}

func main() { lab.Main("a day, autoscaled", run) }

func run(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	length := lab.Quick(time.Duration(*hours*float64(time.Hour)), 30*time.Minute)
	from := max(0, min(burstAt-length/3, 24*time.Hour-length))
	lab.Progress("%s of the day take %s, and again with a fixed number", length, real(length).Round(time.Second))
	scaled, err := live(ctx, srv, from, length, 0)
	if err != nil {
		return err
	}
	fixed := max(1, int(math.Round(scaled.pods)))
	flat, err := live(ctx, srv, from, length, fixed)
	if err != nil {
		return err
	}
	report.Reach("messages in both runs, lost", scaled.lost == 0 && flat.lost == 0, "0 lost", "%d, %d", scaled.messages+flat.messages, scaled.lost+flat.lost)
	for _, r := range []struct {
		name string
		result
	}{{"autoscaled", scaled}, {fmt.Sprintf("%d fixed", fixed), flat}} {
		report.Add(r.name+": workers on average, at most", "%.1f, %d", r.pods, r.peak)
		report.Add(r.name+": slots that were idle", "%.0f %%", 100*r.idle)
		report.Add(r.name+": wait for a slot, p50, p99", "%s, %s", seconds(lab.Quantile(r.waits, 0.5)), seconds(lab.Quantile(r.waits, 0.99)))
		report.Add(r.name+": p99 outside of the burst and the hour after", "%s", seconds(lab.Quantile(r.calm, 0.99)))
		report.Add(r.name+": turns that a drain interrupted, and another worker began anew", "%d", r.interrupted)
	}
	return nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// arrivals sends messages at the rate of the day, each as a Poisson process has it.
func arrivals(ctx context.Context, from, length time.Duration, send func(n int, at time.Duration)) {
	rng, began := rand.New(rand.NewPCG(1, 2)), time.Now()
	for n, at := 0, time.Duration(0); ; n++ {
		at += time.Duration(rng.ExpFloat64() / rate(from+at) * float64(time.Second))
		if at >= length {
			return
		}
		select {
		case <-time.After(time.Until(began.Add(real(at)))):
			send(n, from+at)
		case <-ctx.Done():
			return
		}
	}
}
