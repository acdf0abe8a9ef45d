package agents

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"turnstile/test/history"
)

// poison kills the worker of this agent: the guardian's parent. Then it waits for the guardian to
// end it, and gives up after a while.
func (t *turn) poison() {
	now := time.Now()
	worker, err := parent(os.Getppid())
	rec := history.Record{Kind: history.Fault, Name: history.WorkerKilled, Since: now.UnixNano(), Session: t.rec.Session, ID: t.rec.IDs[0], Target: strconv.Itoa(worker)}
	if err != nil {
		rec.Error = err.Error()
	}
	t.r.log.Add(rec)
	if err == nil {
		_ = syscall.Kill(worker, syscall.SIGKILL)
		time.Sleep(10 * time.Second)
	}
}

// parent is the parent of a guardian, if it is a process of the same program. After its worker's death a
// guardian has another parent.
func parent(guardian int) (pid int, err error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(guardian), "stat"))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if pid, err = strconv.Atoi(string(fields[1])); err != nil {
		return 0, err
	}
	a, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", guardian))
	if err != nil {
		return 0, err
	}
	b, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err == nil && a != b {
		err = fmt.Errorf("the guardian's parent is %s", b)
	}
	return pid, err
}
