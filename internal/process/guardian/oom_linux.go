package guardian

import (
	"os"
	"strconv"
	"strings"
)

// When memory runs out, an agent is killed before its worker: its score counts half of the
// machine's memory, or of its container's, as if the agent used it.
const (
	oomRaise = 500
	oomMost  = 1000
)

// oomScore is this process's score for the kernel's out-of-memory killer. A process may raise it,
// and lower it again to its former value.
type oomScore struct{ file *os.File }

// openOOMScore must be called before conceal, after which the file belongs to root.
func openOOMScore() oomScore {
	file, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	if err != nil {
		return oomScore{} // no /proc: the agent's score is not raised
	}
	return oomScore{file}
}

// raised starts a process with a raised score, which its children inherit, and then restores this
// process's score.
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

// set ignores errors: a score is only a preference.
func (s oomScore) set(score int) { _, _ = s.file.WriteAt([]byte(strconv.Itoa(score)), 0) }
