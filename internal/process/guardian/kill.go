//go:build unix

package guardian

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// runKill runs an agent's Kill, and returns 1 if it failed or took too long.
func runKill(argv, env []string, stderr *os.File) (failed int) {
	if len(argv) == 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), giveUpAfter)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = env
	if stderr != nil {
		cmd.Stderr = stderr
	}
	// A guardian that has given up on others still reaps every child.
	if err := cmd.Run(); err != nil && !errors.Is(err, syscall.ECHILD) {
		return 1
	}
	return 0
}
