// Package counters lets a program that was built with -cover write its counters while it runs.
// cmd/worker has it with the build tag walk.
//
// With each SIGUSR1 the program writes the counters since the last one into the next folder of
// WALK_COUNTERS: 1, 2 and so on. A folder appears when it is complete.
package counters

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/coverage"
	"strconv"
	"syscall"
)

func init() {
	dir := os.Getenv("WALK_COUNTERS")
	if dir == "" {
		return // one of the worker's child processes
	}
	requests := make(chan os.Signal, 1)
	signal.Notify(requests, syscall.SIGUSR1)
	go func() {
		for n := 1; ; n++ {
			<-requests
			if err := write(filepath.Join(dir, strconv.Itoa(n))); err != nil {
				fmt.Fprintln(os.Stderr, "write the counters:", err)
				os.Exit(1)
			}
		}
	}()
}

// write writes the counters into a new folder, and sets them to 0.
func write(dir string) error {
	unfinished := dir + ".unfinished"
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		return err
	}
	if err := coverage.WriteMetaDir(unfinished); err != nil {
		return err
	}
	if err := coverage.WriteCountersDir(unfinished); err != nil {
		return err
	}
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	return os.Rename(unfinished, dir)
}
