package guardian

import (
	"maps"
	"os/exec"
	"sync"
)

// registry knows the guardians that this process has started, by their pids.
type registry struct {
	// starting is held for reading from before a guardian is forked until it is
	// in the list: whoever has held it for writing knows of all.
	starting sync.RWMutex

	mu   sync.Mutex
	pids map[int]bool
}

var guardians = registry{pids: map[int]bool{}}

// start starts a guardian and enters it.
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

// remove takes out a guardian that was waited for: its pid may be used again.
func (r *registry) remove(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pids, pid)
}

// list returns all guardians, those included that are being started.
func (r *registry) list() map[int]bool {
	r.starting.Lock()
	defer r.starting.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.pids)
}
