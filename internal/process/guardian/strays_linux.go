package guardian

import (
	"log/slog"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// strayPause is the time from a guardian's end to a search for strays, whatever the guardian
// reported. All guardians that end within it share one search.
const strayPause = time.Second

// strayKiller ends the processes that became children of this process, a subreaper, because their
// guardian ended.
type strayKiller struct {
	on    atomic.Bool
	first sync.Once
	ended chan struct{} // holds a token if a guardian ended since the last search
	log   atomic.Pointer[slog.Logger]

	spared map[int]bool // written once; nobody reaps them, so their pids are not used again

	mu      sync.Mutex
	givenUp map[int]bool // pids of children that may not be killed; nobody else reaps them
}

var strays = strayKiller{ended: make(chan struct{}, 1), spared: map[int]bool{}, givenUp: map[int]bool{}}

// adopt makes this process take over and end the processes of dead guardians.
func adopt() {
	// Where this is forbidden, guardians cannot start agents either, and report it.
	if becomeSubreaper() == nil {
		strays.on.Store(true)
	}
}

// prepareForStrays must be called before every guardian's start. The children that this process
// has at the first call are spared: they belong to the program that ran in this process before,
// such as the entry point of a container.
func prepareForStrays() {
	if strays.on.Load() {
		strays.first.Do(strays.begin)
	}
}

func (s *strayKiller) begin() {
	all, _ := processes() // without a list no process is spared
	for _, p := range all {
		if p.ppid == os.Getpid() {
			s.spared[p.pid] = true
		}
	}
	go func() {
		for range s.ended {
			time.Sleep(strayPause)
			if left := s.kill(1); left > 0 {
				s.logger().Warn("processes of agents outlived their guardians and could not be found or killed", "count", left)
			}
		}
	}()
}

// LogTo sets where a process of InitWorker logs processes that it cannot kill. Defaults to
// slog.Default().
func LogTo(log *slog.Logger) { strays.log.Store(log) }

func (s *strayKiller) logger() *slog.Logger {
	if log := s.log.Load(); log != nil {
		return log
	}
	return slog.Default()
}

// searchSoon requests a search. Call it after a guardian's end, whatever the guardian reported.
func (s *strayKiller) searchSoon() {
	if !s.on.Load() {
		return
	}
	select {
	case s.ended <- struct{}{}:
	default:
	}
}

// kill kills all strays, and returns how many are left after giveUpAfter. Later calls do not wait
// for those again. A list of processes is not atomic, so this many lists in a row must show no
// stray.
func (s *strayKiller) kill(lists int) (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause, clean := sweepFirst, 0
	for start := time.Now(); ; time.Sleep(pause) {
		children, deeper, err := findStrays()
		for _, p := range append(children, deeper...) {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		alive := map[int]bool{}
		for _, p := range children {
			// By its pid, because waiting for any child would take children of os/exec.
			if pid, err := syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil); err == nil && pid == 0 {
				alive[p.pid] = true
			}
		}
		maps.DeleteFunc(s.givenUp, func(pid int, _ bool) bool { return !alive[pid] })
		maps.DeleteFunc(alive, func(pid int, _ bool) bool { return s.givenUp[pid] })
		// Children of a stray that was reaped are found in the next list.
		found := len(children) - len(s.givenUp)
		if err != nil {
			found = 1 // at least one may be alive
		}
		if found > 0 {
			clean = 0
		} else if clean++; clean >= lists {
			return 0
		}
		if found > 0 && time.Since(start) > giveUpAfter {
			maps.Copy(s.givenUp, alive)
			return found
		}
		pause = min(2*pause, sweepMax)
	}
}

// findStrays lists the children of this process that it did not start, and their descendants. A
// guardian begins a new session, and no process can join another session. So children in this
// process's session, such as the redis-server of --dev, are not an agent's.
func findStrays() (children, deeper []proc, err error) {
	session, err := unix.Getsid(0)
	if err != nil {
		return nil, nil, err
	}
	before := guardians.list() // guardians start and end while processes are listed
	all, err := processes()
	if err != nil {
		return nil, nil, err
	}
	after := guardians.list()
	self := os.Getpid()
	stray := map[int]bool{}
	for _, p := range descendants(all) { // parents before their children
		switch {
		case p.ppid == self && p.session != session && !before[p.pid] && !after[p.pid] && !strays.spared[p.pid]:
			children = append(children, p)
		case stray[p.ppid]:
			deeper = append(deeper, p)
		default:
			continue
		}
		stray[p.pid] = true
	}
	return children, deeper, nil
}
