//go:build linux

package kills_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"turnstile/test/expect"
	"turnstile/test/kills"
)

// later is how long after a point a worker is killed at most: some steps may end by then.
const later = 30 * time.Millisecond

// killer starts workers again and again, and kills them at points of their agents.
type killer struct {
	t     *testing.T
	dir   string
	users sync.WaitGroup
	under sync.WaitGroup // of goroutines
	redis chan struct{}  // Redis is to be killed and started again

	mu      sync.Mutex
	random  *rand.Rand
	lives   map[string]*exec.Cmd
	planned map[string]int // kills by agents: each agent's workers have a third
	made    map[string]int // those that are over
	outages int
	points  map[string]int // by their points
	over    bool
}

func newKiller(t *testing.T, dir string) *killer {
	t.Helper()
	k := &killer{
		t: t, dir: dir, redis: make(chan struct{}, *number), random: rand.New(rand.NewPCG(*seed, 0)), lives: map[string]*exec.Cmd{},
		planned: map[string]int{}, made: map[string]int{}, points: map[string]int{},
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, kills.SocketName))
	expect.OK(t, err)
	t.Cleanup(func() {
		k.mu.Lock()
		k.over = true
		for _, cmd := range k.lives {
			_ = cmd.Process.Kill()
		}
		k.mu.Unlock()
		_ = listener.Close()
		k.under.Wait()
	})
	k.under.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			k.under.Go(func() { k.meet(conn) })
		}
	})
	return k
}

// meet lets an agent go on at a point of its life, unless its worker is killed there.
func (k *killer) meet(conn net.Conn) {
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return // it was killed
	}
	k.at(kills.ParsePoint(line))
	_, _ = conn.Write([]byte("\n"))
}

// at is a point of an agent's life. It may kill the agent's worker there, or after a moment.
func (k *killer) at(worker, point string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.planned[agentOf(worker)] == share() || k.random.IntN(*every) > 0 {
		return
	}
	k.planned[agentOf(worker)]++
	life := k.lives[worker]
	withRedis, now, wait := k.random.IntN(*outage) == 0, k.random.IntN(2) == 0, rand.N(later)
	if now {
		k.kill(worker, life, point, withRedis)
		return
	}
	k.under.Go(func() {
		time.Sleep(wait)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.kill(worker, life, "soon after", withRedis)
	})
}

// kill kills a life of a worker. k.mu is held.
func (k *killer) kill(worker string, life *exec.Cmd, point string, withRedis bool) {
	if k.over || life == nil || k.lives[worker] != life || life.Process.Kill() != nil {
		k.planned[agentOf(worker)]-- // another kill came first
		return
	}
	delete(k.lives, worker)
	k.made[agentOf(worker)]++
	k.points[point]++
	if withRedis {
		k.outages++
		k.redis <- struct{}{}
	}
}

// agentOf returns a worker's agent.
func agentOf(worker string) string { return strings.TrimRight(worker, "01") }

// share is how many kills each agent's workers have.
func share() int { return (*number + len(kinds) - 1) / len(kinds) }

// goesOn reports whether an agent's workers have kills left.
func (k *killer) goesOn(agent string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.made[agent] < share() && !k.t.Failed()
}

// start starts a worker, and again after each kill.
func (k *killer) start(name, path string, environment []string) {
	log, err := os.OpenFile(filepath.Join(k.dir, name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	expect.OK(k.t, err)
	k.under.Go(func() {
		defer log.Close()
		for life := 1; ; life++ {
			cmd := exec.CommandContext(context.Background(), path) // it is killed
			if path != "" && filepath.Base(path) == "agent" {
				cmd.Args = append(cmd.Args, "worker")
			}
			cmd.Env, cmd.Stdout, cmd.Stderr = environment, log, log
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
			if !k.begin(name, cmd) {
				return
			}
			fmt.Fprintf(log, "-- life %d has the process %d\n", life, cmd.Process.Pid)
			_ = cmd.Wait() // k knows whether it was killed
			k.ended(name, cmd)
		}
	})
}

// begin starts a life, unless all is over.
func (k *killer) begin(name string, cmd *exec.Cmd) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return false
	}
	if err := cmd.Start(); err != nil {
		k.t.Errorf("start %s: %v", name, err)
		return false
	}
	k.lives[name] = cmd
	return true
}

// ended notes that a life has ended. A worker that starts while Redis is away may end by itself.
func (k *killer) ended(name string, cmd *exec.Cmd) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lives[name] == cmd {
		delete(k.lives, name)
	}
	if code := cmd.ProcessState.ExitCode(); code == 2 && !k.over { // a panic, or a wrong setting
		k.t.Errorf("%s ended by itself: %v", name, cmd.ProcessState)
	}
}
