// Package clock moves the wall clock of a redis-server, which preloads a library for that. libfaketime would do, but
// keeps redis-server from starting. Linux, with a C compiler.
package clock

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Variable names a process's Clock for it.
const Variable = "CHAOS_CLOCK"

// Compiler is the program that Build runs.
const Compiler = "cc"

//go:embed shim/clock.c
var source []byte

// Build compiles the library that is preloaded.
func Build(ctx context.Context, dir string) (library string, err error) {
	file := filepath.Join(dir, "clock.c")
	library = filepath.Join(dir, "clock.so")
	if err := os.WriteFile(file, source, 0o644); err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, Compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", library, file).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the clock's library: %w\n%s", err, out)
	}
	return library, nil
}

// Clock is the offset of a process's wall clock, in the file of this name, which the process has mapped.
type Clock string

// New makes the clock of a file. It is not moved.
func New(file string) (Clock, error) { return Clock(file), os.WriteFile(file, make([]byte, 8), 0o644) }

// Move sets how far the clock is ahead of the machine's.
func (c Clock) Move(d time.Duration) error {
	f, err := os.OpenFile(string(c), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(d)), 0) // one write: never half an offset
	return err
}

// Now is how far the clock is ahead.
func (c Clock) Now() (time.Duration, error) {
	data, err := os.ReadFile(string(c))
	if err != nil || len(data) != 8 {
		return 0, fmt.Errorf("read %s: %d bytes, %w", c, len(data), err)
	}
	return time.Duration(binary.LittleEndian.Uint64(data)), nil
}

// Environ is the environment variable that gives a process the clock.
func (c Clock) Environ() string { return Variable + "=" + string(c) }
