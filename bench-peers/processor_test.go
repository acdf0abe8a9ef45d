package main

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"testing"

	"turnstile/bench/internal/lab"
)

// /proc and getrusage agree about this process, except for the ticks.
func TestProcessorTime(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("no /proc here")
	}
	before, err := lab.ProcessorTime()
	if err != nil {
		t.Fatal(err)
	}
	got, err := processorTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	now, err := lab.ProcessorTime()
	if err != nil {
		t.Fatal(err)
	}
	if got < before-2*tick || got > now+2*tick {
		t.Errorf("%s, which is not between %s and %s", got, before, now)
	}
	if _, err := processorTime(0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no process: %v", err)
	}
}
