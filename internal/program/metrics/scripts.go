package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/script"
)

// scriptTimes are the bounds of the buckets, in seconds.
var scriptTimes = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5}

// scripts measures round trips that call scripts. It implements redis.Hook.
type scripts struct{ took *prometheus.HistogramVec }

// Scripts returns a hook for the client of one process that measures its scripts. Call it once.
func (m *Metrics) Scripts() redis.Hook {
	s := scripts{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "turnstile_script_duration_seconds", Buckets: scriptTimes,
		Help: "How long this process's round trips to Redis took, for each script that they called. Calls share round trips.",
	}, []string{"script"})}
	m.registry.MustRegister(s.took)
	return s
}

// DialHook implements redis.Hook.
func (scripts) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (s scripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmd)
		if name := called(cmd); name != "" {
			s.took.WithLabelValues(name).Observe(time.Since(began).Seconds())
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (s scripts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmds)
		took, last := time.Since(began).Seconds(), ""
		for _, cmd := range cmds {
			if name := called(cmd); name != "" && name != last { // those of one script stand together
				s.took.WithLabelValues(name).Observe(took)
				last = name
			}
		}
		return err
	}
}

// called is the name of the script that a command calls, or "". Its text is sent once, to a server that does not have it.
func called(cmd redis.Cmder) string {
	args := cmd.Args()
	if len(args) < 2 {
		return ""
	}
	sha, _ := args[1].(string)
	switch args[0] {
	case "evalsha":
	case "eval":
		sha = redis.NewScript(sha).Hash()
	default:
		return ""
	}
	text, _ := script.BySHA(sha)
	return text.Name
}
