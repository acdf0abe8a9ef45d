package main

import (
	"os"
	"runtime/pprof"

	"turnstile/bench/internal/lab"
)

// measure is what one drain took, per message where it is not a rate.
type measure struct {
	rate     float64 // messages a second
	usec     float64 // of Redis's time for the commands that were sent
	commands float64 // sent; a script is one
}

func median(all []measure) measure {
	pick := func(f func(measure) float64) float64 {
		v := make([]float64, len(all))
		for i, m := range all {
			v[i] = f(m)
		}
		return lab.Median(v)
	}
	return measure{
		pick(func(m measure) float64 { return m.rate }),
		pick(func(m measure) float64 { return m.usec }),
		pick(func(m measure) float64 { return m.commands }),
	}
}

func startProfile(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, pprof.StartCPUProfile(f)
}
