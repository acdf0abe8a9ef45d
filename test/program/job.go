package program

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"
)

// RunJob is what a test binary does that was started as a child: it decodes its job, runs it, and ends
// the process, with exit code 1 and the error on stderr if that fails.
func RunJob[J any](text string, run func(J) error) {
	var job J
	err := json.Unmarshal([]byte(text), &job)
	if err == nil {
		err = run(job)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(1) // os.Exit takes a second in a race build
	}
	syscall.Exit(0)
}
