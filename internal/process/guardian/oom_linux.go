package guardian

import (
	"os"
	"strconv"
	"strings"
)

// An agent is killed before its worker when memory runs out: it counts as if it
// used half of the machine's memory, or of its container's, more than it does.
const (
	oomRaise = 500
	oomMost  = 1000
)

// oomScore is this process's own score for the kernel's out-of-memory killer. A
// process may raise it, and lower it again to what it was.
type oomScore struct{ file *os.File }

// openOOMScore must come before conceal: the file then belongs to root.
func openOOMScore() oomScore {
	file, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	if err != nil {
		return oomScore{} // no /proc: an agent runs without it
	}
	return oomScore{file}
}

// raised starts a process with a higher score, which all that it starts inherits.
// This one has its own score again afterwards.
func (s oomScore) raised(start func()) {
	if s.file == nil {
		start()
		return
	}
	defer s.file.Close()
	text := make([]byte, 16)
	n, _ := s.file.ReadAt(text, 0)
	own, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil {
		start()
		return
	}
	s.set(min(own+oomRaise, oomMost))
	defer s.set(own)
	start()
}

// set does not report errors: a score is a preference.
func (s oomScore) set(score int) { _, _ = s.file.WriteAt([]byte(strconv.Itoa(score)), 0) }
