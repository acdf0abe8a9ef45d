package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/PID/stat: USER_HZ, which is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// processorTime is the processor time of another process with all its threads. It needs Linux.
func processorTime(pid int) (time.Duration, error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	// The second field is the program's name in parentheses, which may have spaces in it.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest) // from the third on
	if len(fields) < 13 {
		return 0, fmt.Errorf("%s has only %d fields", path, len(fields))
	}
	user, userErr := strconv.Atoi(fields[11])
	system, err := strconv.Atoi(fields[12])
	if userErr != nil || err != nil {
		return 0, fmt.Errorf("%s has no times: %q", path, fields[11:13])
	}
	return time.Duration(user+system) * tick, nil
}
