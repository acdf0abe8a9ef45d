package guardian

import (
	"maps"
	"os/exec"
	"sync"
)

// registry has the pids of this process's guardians.
type registry struct {
	// starting is locked for reading from before a guardian is forked until it is listed. A
	// reader of the list locks it for writing first, so that the list is complete.
	starting sync.RWMutex

	mu   sync.Mutex
	pids map[int]bool
}

var guardians = registry{pids: map[int]bool{}}

// start starts a guardian and lists it.
func (r *registry) start(cmd *exec.Cmd) error {
	r.starting.RLock()
	defer r.starting.RUnlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pids[cmd.Process.Pid] = true
	return nil
}

// remove removes a guardian that was waited for, because its pid may be used again.
func (r *registry) remove(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pids, pid)
}

// list returns all guardians, including those being started.
func (r *registry) list() map[int]bool {
	r.starting.Lock()
	defer r.starting.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.pids)
}
