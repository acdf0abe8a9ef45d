//go:build linux

package main

import (
	"context"
	"time"
)

const (
	workerLine = "worker --dev"
	key        = 45 * time.Millisecond // between two typed characters
	rest       = 6 * time.Second       // how long the last picture stands before it begins again
)

// shot is a command, and how long the viewer gets to read what is there before it
// is typed.
type shot struct {
	before time.Duration
	line   string
}

var scene = []shot{
	{1500 * time.Millisecond, `enqueue -s trip --follow "tool=timetable:1s stream=20 tick=60ms trains leave at 9 and 11"`},
	{1500 * time.Millisecond, `enqueue -s trip "sleep=30s book the one at 9"`},
	{600 * time.Millisecond, `enqueue -s trip "and a seat at the window"`},
	{600 * time.Millisecond, `worker ps`},
	{1500 * time.Millisecond, `enqueue -s trip --mode interrupt --wait "stop: take the one at 11"`},
	{1500 * time.Millisecond, `worker show trip`},
}

// enter types a command's line.
func (p *pane) enter(ctx context.Context, line string) error {
	for _, r := range line {
		if err := pause(ctx, key); err != nil {
			return err
		}
		p.print(string(r))
	}
	if err := pause(ctx, 6*key); err != nil {
		return err
	}
	p.print("\r\n")
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
