package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"turnstile/chaos/internal/defects"
	"turnstile/test/checker"
)

// plantFor is how long a defect may stay unfound.
const plantFor = 10 * time.Minute

// plant puts each defect into copies of the programs and runs them until the checker finds it.
func plant(ctx context.Context, dir, one string, o options) (code int, err error) {
	all, err := defects.Load(dir)
	if err != nil {
		return exitBroken, err
	}
	for _, d := range all {
		if one != "" && d.Name != one {
			continue
		}
		began := time.Now()
		found, err := find(ctx, d, o)
		switch {
		case err != nil:
			return exitBroken, fmt.Errorf("defect %s: %w", d.Name, err)
		case found.Rule == "":
			code = exitFinding
			fmt.Printf("defect %s: NOT FOUND within %s: %s\n", d.Name, plantFor, d.Why)
		default:
			fmt.Printf("defect %s: found in %s: %s\n", d.Name, time.Since(began).Round(time.Second), found)
		}
	}
	return code, nil
}

// find repeats runs with a defect until the rule that must find it does.
func find(ctx context.Context, d defects.Defect, o options) (found checker.Finding, err error) {
	for end := time.Now().Add(plantFor); time.Now().Before(end) && ctx.Err() == nil; {
		run := options{root: o.root}
		flags := run.flags()
		if err := flags.Parse(append([]string{"-for", "30s", "-drain", "30s"}, d.Args...)); err != nil {
			return found, err
		}
		run.root = o.root
		if run.dir, err = os.MkdirTemp("", "chaos-defect-"); err != nil {
			return found, err
		}
		if run.overlay, err = d.Overlay(run.root, run.dir); err != nil {
			return found, err
		}
		if err := run.live(ctx); err != nil {
			return found, fmt.Errorf("%w; see %s", err, run.dir)
		}
		report, err := check(run.dir, run.ttl)
		if err != nil {
			return found, err
		}
		if i := slices.IndexFunc(report.Findings, func(f checker.Finding) bool { return f.Rule == d.Rule }); i >= 0 {
			return report.Findings[i], os.RemoveAll(run.dir)
		}
		for _, f := range report.Findings[:min(len(report.Findings), 3)] {
			fmt.Printf("defect %s: seed %d: found by another rule: %s\n", d.Name, run.seed, f)
		}
		if err := os.RemoveAll(run.dir); err != nil {
			return found, err
		}
	}
	return found, context.Cause(ctx)
}
