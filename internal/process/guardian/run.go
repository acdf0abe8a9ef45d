//go:build unix

package guardian

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
)

// The exit codes. Any other means that the guardian was killed.
const (
	exitDone       = 0 // no process of the agent is left; the report has the details
	exitNotStarted = 1
	exitGoCrashed  = 2 // of Go's runtime, also if it can start no thread
)

// run is a guardian's whole life. It returns the exit code.
func run() int {
	score := openOOMScore() // before conceal: then the file belongs to root
	hidden := conceal()
	runtime.LockOSThread()
	closeOnExecFrom(channelFD)
	// A guardian must end after its agent, and not by a signal to all processes of a service or
	// container. Signals that are caught, unlike ignored ones, have their default action in the
	// agent, even if the worker was started with SIGINT ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)

	channel := os.NewFile(channelFD, "worker")
	g := &watcher{status: json.NewEncoder(channel)}
	control := bufio.NewReader(channel)
	line, err := control.ReadBytes('\n')
	if err != nil {
		return exitNotStarted // the worker died first
	}
	if hidden != nil {
		return g.fail(hidden)
	}
	var l launch
	if err := json.Unmarshal(line, &l); err != nil {
		return g.fail(err)
	}
	if err := becomeSubreaper(); err != nil {
		return g.fail(err)
	}
	g.deadline = l.Deadline
	g.cleanUp = func() int { return runKill(toStrings(l.Kill), toStrings(l.Env), os.Stderr) }
	if g.leaseOver() {
		g.report.Lease = true
		g.finish()
		return exitDone
	}
	startThreads()
	files := []uintptr{0, 1, 2}
	if l.Launcher {
		files = append(files, channelFD)
	}
	score.raised(func() {
		g.pid, err = syscall.ForkExec(string(l.Path), toStrings(l.Args), &syscall.ProcAttr{
			Dir: string(l.Dir), Env: toStrings(l.Env), Files: files, Sys: agentAttr(),
		})
	})
	if err != nil {
		failed := notStarted(err)
		failed.Own = failed.Own || len(l.Dir) > 0 && syscall.Chdir(string(l.Dir)) != nil
		g.send(failed)
		return exitNotStarted
	}
	// The agent has its own copies. If this process kept stdin open, the worker would not notice
	// that nobody reads it. stderr stays open for this process's errors.
	_ = os.Stdin.Close()
	_ = os.Stdout.Close()

	g.send(report{Pid: g.pid})
	g.watch(readOrders(control), reap(g.pid))
	return exitDone
}

// startThreads starts the threads that Go's runtime needs until the end, which stay. If there can be no more, it ends
// the process, and no agent has started yet.
func startThreads() {
	var up sync.WaitGroup
	all := make(chan struct{})
	for range 4 {
		up.Add(1)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			up.Done()
			<-all
		}()
	}
	up.Wait()
	close(all)
}

// notStarted is the report of an error of exec. What is too long or has a zero byte would fail on any machine.
func notStarted(err error) report {
	return report{Error: err.Error(), Own: errors.Is(err, syscall.E2BIG) || errors.Is(err, syscall.EINVAL)}
}

// Launch calls f, which makes a launcher the agent's program, and reports its error to the worker. The program does
// not inherit the channel.
func Launch(f func() error) {
	syscall.CloseOnExec(channelFD)
	g := watcher{status: json.NewEncoder(os.NewFile(channelFD, "worker"))}
	g.send(notStarted(f()))
}

// readOrders closes its channel when the worker's channel ends: the worker is dead.
func readOrders(control *bufio.Reader) <-chan order {
	orders := make(chan order)
	go func() {
		defer close(orders)
		for {
			line, err := control.ReadBytes('\n')
			if err != nil {
				return
			}
			var o order
			if json.Unmarshal(line, &o) != nil {
				return
			}
			orders <- o
		}
	}()
	return orders
}

type exit struct {
	pid    int
	status syscall.WaitStatus
}

// reap collects every child, adopted ones included, and closes its channel when none are left. It sends the end of
// the child main. The others must not wait for the reader: while it lists processes, children that fork and end at once
// would fill that list.
func reap(main int) <-chan exit {
	exits := make(chan exit, 1)
	go func() {
		defer close(exits)
		for {
			var e exit
			var err error
			e.pid, err = syscall.Wait4(-1, &e.status, 0, nil)
			switch {
			case err == nil && e.pid == main:
				exits <- e
			case err == nil:
			case !errors.Is(err, syscall.EINTR):
				return
			}
		}
	}()
	return exits
}

// closeOnExecListed sets the flag on every file from first on in dir, which lists this process's
// files.
func closeOnExecListed(first int, dir string) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd >= first {
			syscall.CloseOnExec(fd)
		}
	}
}
