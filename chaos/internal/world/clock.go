package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"turnstile/test/clock"
)

// newClock makes the clock of a process in the world of a directory.
func newClock(dir, process string) (clock.Clock, error) {
	return clock.New(filepath.Join(dir, "clocks", process+".clock"))
}

// ClockMoved reports whether a worker's clock was moved in the world of a directory. It stays moved.
func ClockMoved(dir string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "clocks", "worker*.clock")) // the pattern is a valid one
	return slices.ContainsFunc(files, func(file string) bool {
		by, err := clock.Clock(file).Now()
		return by != 0 || err != nil
	})
}

// The package time of a worker, with a wall clock that can be moved. Only Now reads the wall clock;
// timers, deadlines and leases have the monotonic one.
const (
	nowIs = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"

	nowBecomes = nowIs + `	if chaosOffset != nil {
		sec, nsec = chaosMoved(sec, nsec, *chaosOffset)
	}
`
	nowAdds = `package time

import (
	"syscall"
	"unsafe"
)

var chaosOffset = chaosMap()

func chaosMap() *int64 {
	name, ok := syscall.Getenv("` + clock.Variable + `")
	if !ok {
		return nil
	}
	fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	page, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil
	}
	return (*int64)(unsafe.Pointer(&page[0]))
}

func chaosMoved(sec int64, nsec int32, by int64) (int64, int32) {
	ns := int64(nsec) + by
	sec += ns / 1e9
	if ns %= 1e9; ns < 0 {
		sec, ns = sec-1, ns+1e9
	}
	return sec, int32(ns)
}
`
)

// movableTime adds to an overlay of go build a package time with a movable clock.
func movableTime(ctx context.Context, dir string, overlay map[string]string) error {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		return err
	}
	if n := strings.Count(string(source), nowIs); n != 1 {
		return fmt.Errorf("the beginning of time.Now is %d times in %s, want once: adapt clock.go to this Go", n, original)
	}
	changed, added := filepath.Join(dir, "time.go"), filepath.Join(dir, "time_chaos.go")
	overlay[original] = changed
	overlay[filepath.Join(filepath.Dir(original), "chaos.go")] = added
	return errors.Join(keep(changed, strings.Replace(string(source), nowIs, nowBecomes, 1)), keep(added, nowAdds))
}

// keep writes a file unless it is there: another run may be building with it.
func keep(name, text string) error {
	if was, err := os.ReadFile(name); err == nil && string(was) == text {
		return nil
	}
	return os.WriteFile(name, []byte(text), 0o644)
}
