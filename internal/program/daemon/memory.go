package daemon

import (
	"log/slog"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// LimitMemory has the garbage collector keep the process below its container's memory (cgroup v1 or v2), at
// 90 % of it. GOMEMLIMIT in the environment takes precedence.
func LimitMemory(log *slog.Logger) {
	if _, err := memlimit.Set(); err != nil {
		log.Debug("the container's memory is unknown: GOMEMLIMIT is not set", "error", err)
	}
}
