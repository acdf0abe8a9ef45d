package program

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"
)

// RunJob is the main function of a test binary that runs as a child: it decodes its job, runs it, and
// ends the process. After a failure the exit code is 1, with the error on stderr.
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
