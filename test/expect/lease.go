package expect

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// mostSlower bounds by how much Lease lengthens a lease: a test waits for some of them to end.
const mostSlower = 6

// slowest is the largest factor that this process measured, in thousandths.
var slowest atomic.Int64

// Lease returns the length of a lease that is as safe here as one of d on an idle machine, at least d.
// On a busy machine an owner may not renew in time, and then the test would judge the machine and not
// the code. The factor is measured at each call. In a process it never decreases, since the machine
// may be busy again in a moment.
func Lease(d time.Duration) time.Duration {
	now := int64(1000 * slower())
	for {
		was := slowest.Load()
		if now <= was {
			return longer(d, was)
		}
		if slowest.CompareAndSwap(was, now) {
			return longer(d, now)
		}
	}
}

// longer is d times thousandths, at least d, in whole ms.
func longer(d time.Duration, thousandths int64) time.Duration {
	return max(d, d*time.Duration(thousandths)/1000).Round(time.Millisecond)
}

// slower measures how much longer a thread computes now than it would alone: elapsed time divided
// by its processor time. A thread that wakes up also waits for its turn, so a shared processor
// counts twice.
func slower() float64 {
	const sample = 20 * time.Millisecond // some turns of the scheduler
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began, computed := time.Now(), threadTime()
	for threadTime()-computed < sample && time.Since(began) < mostSlower*sample {
		continue
	}
	passed, got := time.Since(began), threadTime()-computed
	if got <= 0 {
		return mostSlower
	}
	return min(1+2*(float64(passed)/float64(got)-1), mostSlower)
}

// threadTime is the processor time of this thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
