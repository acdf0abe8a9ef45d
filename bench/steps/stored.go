package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent"
)

// timed is an agent that times the writes of its steps. Beside each it times a SET of as many bytes.
type timed struct {
	rdb               redis.UniversalClient
	starts, ends, set *[]time.Duration
}

// stepsEach is how many steps a timed turn has.
const stepsEach = 100

// Run implements agent.Agent.
func (t timed) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	value := strings.Repeat("x", len(input)+len(output))
	for n := range stepsEach {
		began := time.Now()
		if _, err := turn.StartStep(ctx, spec(n)); err != nil {
			return agent.Result{}, err
		}
		started := time.Now()
		if err := turn.EndStep(ctx, spec(n), agent.StepEnd{Output: output}); err != nil {
			return agent.Result{}, err
		}
		ended := time.Now()
		if err := t.rdb.Set(ctx, "bench", value, 0).Err(); err != nil {
			return agent.Result{}, err
		}
		*t.starts = append(*t.starts, started.Sub(began))
		*t.ends = append(*t.ends, ended.Sub(started))
		*t.set = append(*t.set, time.Since(ended))
	}
	return agent.Result{Text: "done"}, nil
}

// stored measures how long a step's start and end take to be stored.
func stored(ctx context.Context, srv *lab.Server, report *lab.Report, file lab.Persistence, samples int) error {
	rdb := srv.Client()
	defer rdb.Close()
	var starts, ends, set []time.Duration
	if _, err := talk(ctx, rdb, rdb, "timed", timed{rdb, &starts, &ends, &set}, samples/stepsEach); err != nil {
		return err
	}
	lab.Progress("%d steps with AOF %s", len(starts), file)
	report.Add(fmt.Sprintf("AOF %s: a step's start is stored after", file), "%s", lab.Spread(starts))
	report.Add(fmt.Sprintf("AOF %s: its end", file), "%s", lab.Spread(ends))
	report.Add(fmt.Sprintf("AOF %s: a SET of as many bytes", file), "%s", lab.Spread(set))
	return nil
}
