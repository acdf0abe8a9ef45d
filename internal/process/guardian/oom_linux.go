package guardian

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
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

const oomFile = "/proc/self/oom_score_adj"

// openOOMScore must be called before conceal, after which the file belongs to root. In a process
// whose user cannot read its binary it always does.
func openOOMScore() oomScore {
	file, err := os.OpenFile(oomFile, os.O_RDWR, 0)
	if err != nil {
		return oomScore{} // the launcher raises the agent's score, or nobody does
	}
	return oomScore{file}
}

// RaiseOOMScore raises the score of this process, a launcher, if its guardian could not. Others of
// its user can open the process meanwhile, as they can open the program that it becomes.
func RaiseOOMScore() {
	if s := openOOMScore(); s.file != nil {
		_ = s.file.Close() // the guardian, the same binary, could open its own
		return
	}
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	defer func() { _ = conceal() }()
	_, _ = openOOMScore().raise()
}

// CheckOOM returns why agents may be killed no sooner than this process when memory runs out.
func CheckOOM() error {
	text, _ := os.ReadFile(oomFile)
	if own, _ := strconv.Atoi(string(bytes.TrimSpace(text))); own > oomMost-oomRaise {
		return fmt.Errorf("the worker's oom_score_adj is %d, and an agent's can be no more than %d: give the worker %d or less (systemd: OOMScoreAdjust; Kubernetes: requests that equal the limits)", own, oomMost, oomMost-oomRaise)
	}
	groups, _ := os.ReadFile("/proc/self/cgroup")
	_, group, _ := bytes.Cut(groups, []byte("0::")) // of cgroup v2: the last line
	path := filepath.Join("/sys/fs/cgroup", string(bytes.TrimSpace(group)), "memory.oom.group")
	if all, _ := os.ReadFile(path); string(all) == "1\n" {
		return fmt.Errorf("%s is 1, so all processes are killed together: set it to 0 (systemd: OOMPolicy=continue; Kubernetes: singleProcessOOMKill of the kubelet)", path)
	}
	return nil
}

// raised starts a process with a raised score, which its children inherit, and then restores this
// process's score.
func (s oomScore) raised(start func()) {
	own, err := s.raise()
	start()
	if err == nil {
		s.set(own)
	}
	_ = s.file.Close()
}

func (s oomScore) raise() (own int, err error) {
	text := make([]byte, 16)
	n, _ := s.file.ReadAt(text, 0)
	if own, err = strconv.Atoi(strings.TrimSpace(string(text[:n]))); err == nil {
		s.set(min(own+oomRaise, oomMost))
	}
	return own, err
}

// set ignores errors: a score is only a preference.
func (s oomScore) set(score int) { _, _ = s.file.WriteAt([]byte(strconv.Itoa(score)), 0) }
