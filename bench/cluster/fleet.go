package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"turnstile/bench/internal/lab"
)

// fleet has the processes of workers. They count the ended turns in shared memory: a message to the parent for each end
// would cost a part of a turn's time. The process with the last end writes to a pipe.
type fleet struct {
	children []*lab.Child
	last     *os.File
}

// startFleet starts workers' processes, which wait for run. End the fleet also after an error.
func startFleet(ctx context.Context, workers int, j job) (f fleet, err error) {
	self, err := os.Executable()
	if err != nil {
		return f, err
	}
	memory, err := os.CreateTemp("", "turnstile-bench-")
	if err != nil {
		return f, err
	}
	defer memory.Close()
	if err := errors.Join(os.Remove(memory.Name()), memory.Truncate(counterBytes)); err != nil {
		return f, err
	}
	last, write, err := os.Pipe()
	if err != nil {
		return f, err
	}
	defer write.Close() // so the pipe ends with the workers
	f.last = last
	for range workers {
		cmd := exec.CommandContext(ctx, self)
		cmd.ExtraFiles = []*os.File{memory, write}
		child, err := lab.SpawnProgram(cmd, j)
		if err != nil {
			return f, err
		}
		f.children = append(f.children, child)
		var ready string
		if err := child.Read(&ready); err != nil {
			return f, err
		}
	}
	return f, nil
}

// run runs all turns. It returns how long that took, and the workers' states then.
func (f fleet) run(ctx context.Context) (took time.Duration, states []state, err error) {
	defer context.AfterFunc(ctx, func() { _ = f.last.Close() })()
	began := time.Now()
	if _, err := f.call("start"); err != nil {
		return 0, nil, err
	}
	if _, err := f.last.Read(make([]byte, 1)); err != nil {
		return 0, nil, fmt.Errorf("wait for the last turn's end: %w", err)
	}
	took = time.Since(began)
	states, err = f.call("report")
	return took, states, err
}

// call sends all workers a word at the same time.
func (f fleet) call(word string) ([]state, error) {
	states := make([]state, len(f.children))
	return states, lab.Parallel(len(states), func(i int) error {
		err := f.children[i].Call(word, &states[i])
		if err == nil && states[i].Failed != "" {
			err = errors.New(states[i].Failed)
		}
		return err
	})
}

func (f fleet) end() {
	for _, c := range f.children {
		c.End() // a drain would take longer, and all that it would release is cleared
	}
	_ = f.last.Close()
}
