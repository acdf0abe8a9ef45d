//go:build unix

package guardian

import (
	"time"

	"golang.org/x/sys/unix"
)

// sharedClock is the machine's monotonic clock in ns. All processes read the same clock, so a
// deadline on it means the same to the worker and to the guardian, even if a line arrives late or a
// process is stopped in between.
func sharedClock() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(clockID, &ts); err != nil {
		panic(err) // every kernel that Go supports has it
	}
	return ts.Nano()
}

// onSharedClock converts a deadline. It reads the shared clock first: a pause between the two
// readings makes the result too early, never too late.
func onSharedClock(deadline time.Time) int64 {
	now := sharedClock()
	return now + int64(time.Until(deadline))
}
