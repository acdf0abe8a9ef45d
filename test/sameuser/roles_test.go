//go:build linux

package sameuser

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// secret is in the worker's environment, and agents must not see it.
const secret = "sesame"

// roles are the programs of the agents and of their children: this test's binary, started with a
// role's name and the user's directory.
var roles = map[string]func(args []string){
	// look lists its openings of its guardian and its worker.
	"look": func([]string) {
		guardian, worker := family()
		for name, pid := range map[string]int{"guardian": guardian, "worker": worker} {
			for _, found := range openings(pid) {
				fmt.Printf("%s: %s\n", name, found)
			}
		}
		fmt.Println("looked")
	},

	// peek does so with a given process.
	"peek": func(args []string) {
		pid, _ := strconv.Atoi(args[0])
		for _, found := range openings(pid) {
			fmt.Println(found)
		}
	},

	// idle does nothing, and does not protect itself.
	"idle": func([]string) { _, _ = io.Copy(io.Discard, os.Stdin) },

	// unlease tells its guardian that there is no lease.
	"unlease": func([]string) {
		guardian, _ := family()
		for _, f := range guardianFiles(guardian) {
			_, _ = f.WriteString(`{"unlease":true}` + "\n")
		}
		fmt.Println(os.Getpid(), ".")
		hang()
	},

	// forge reports in its guardian's name that all is done, makes an escaped process hold the
	// report's files open, and kills the guardian.
	"forge": func(args []string) {
		goodOrBad()
		guardian, _ := family()
		files := guardianFiles(guardian)
		for _, f := range files {
			_, _ = f.WriteString(`{"done":true}` + "\n")
		}
		leave(args[0], files, "hang")
		_ = syscall.Kill(guardian, syscall.SIGKILL)
		hang()
	},

	// flee leaves its session with other processes, and kills its guardian. The second run reports
	// who of the first is alive.
	"flee": func(args []string) {
		goodOrBad()
		if pids := notes(args[0], "pids"); len(pids) > 0 {
			for _, pid := range pids {
				if n, _ := strconv.Atoi(pid); alive(n) {
					note(args[0], "alive", pid)
				}
			}
			fmt.Println("looked")
			return
		}
		leave(args[0], nil, "branch")
		guardian, _ := family()
		note(args[0], "pids", strconv.Itoa(os.Getpid()))
		_ = syscall.Kill(guardian, syscall.SIGKILL)
		hang()
	},

	// desert does so, and has no second run.
	"desert": func(args []string) {
		goodOrBad()
		leave(args[0], nil, "hang")
		guardian, _ := family()
		_ = syscall.Kill(guardian, syscall.SIGKILL)
		hang()
	},

	// branch runs in a new session, and starts a process in another one.
	"branch": func(args []string) { leave(args[0], nil, "hang"); enter(args[0]); hang() },
	"hang":   func(args []string) { enter(args[0]); hang() },

	// hinder keeps its guardian from opening any file, /proc included, and starts a process that
	// leaves, which the guardian then cannot find.
	"hinder": func(args []string) {
		goodOrBad()
		leave(args[0], nil, "hang")
		guardian, _ := family()
		if err := unix.Prlimit(guardian, unix.RLIMIT_NOFILE, &unix.Rlimit{}, nil); err != nil {
			panic(err)
		}
		hang()
	},

	// starve leaves a process running, kills its guardian and keeps its worker from opening any
	// file, so that the worker cannot find the remaining processes.
	"starve": func(args []string) {
		note(args[0], "runs", "one")
		leave(args[0], nil, "hang")
		guardian, worker := family()
		if err := unix.Prlimit(worker, unix.RLIMIT_NOFILE, &unix.Rlimit{}, nil); err != nil {
			panic(err)
		}
		_ = syscall.Kill(guardian, syscall.SIGKILL)
		hang()
	},

	// sidecar runs in a new session.
	"sidecar": func(args []string) {
		if _, err := syscall.Setsid(); err != nil {
			panic(err)
		}
		note(args[0], "sidecar", strconv.Itoa(os.Getpid()))
		hang()
	},

	"warm": warm,

	// score replies with its oom_score_adj, and those of a child, its guardian and its worker.
	"score": func([]string) {
		guardian, worker := family()
		child, _ := exec.Command("cat", "/proc/self/oom_score_adj").Output()
		fmt.Println(score(os.Getpid()), strings.TrimSpace(string(child)), score(guardian), score(worker))
	},
}

func score(pid int) string {
	return strings.TrimSpace(read(fmt.Sprintf("/proc/%d/oom_score_adj", pid)))
}

// goodOrBad ends the agent at once if the message is "good".
func goodOrBad() {
	if prompt, _ := io.ReadAll(os.Stdin); string(prompt) == "good" {
		fmt.Println("fine")
		os.Exit(0)
	}
}

func hang() { time.Sleep(time.Hour) }

// family is this agent's guardian and its worker.
func family() (guardian, worker int) {
	guardian = os.Getppid()
	worker, _ = strconv.Atoi(stat(guardian)[1])
	return guardian, worker
}

// stat is a process's line in /proc: its state, its parent, and so on.
func stat(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	return append(strings.Fields(rest), "", "")
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	switch stat(pid)[0] {
	case "", "Z", "X":
		return false
	}
	return true
}

// leave starts another role in a new session, and returns when it is ready.
func leave(dir string, files []*os.File, role ...string) {
	child := exec.Command(os.Args[0], append([]string{"role=" + role[0], dir}, role[1:]...)...)
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	child.ExtraFiles = files
	if err := child.Start(); err != nil {
		panic(err)
	}
	for !slices.Contains(notes(dir, "pids"), strconv.Itoa(child.Process.Pid)) {
		time.Sleep(time.Millisecond) // the child writes it when it is ready
	}
}

// enter records that this process is ready.
func enter(dir string) { note(dir, "pids", strconv.Itoa(os.Getpid())) }

func note(dir, file, text string) {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintln(f, text)
	}
	if err != nil {
		panic(err)
	}
	_ = f.Close()
}

func notes(dir, file string) []string {
	text, _ := os.ReadFile(filepath.Join(dir, file))
	return strings.Fields(string(text))
}

// guardianFiles opens a guardian's files, other than the agent's three, for writing.
func guardianFiles(pid int) (files []*os.File) {
	for fd := 3; fd < 16; fd++ {
		name := fmt.Sprintf("/proc/%d/fd/%d", pid, fd)
		if to, err := os.Readlink(name); err != nil || !strings.HasPrefix(to, "pipe:") {
			continue
		}
		if f, err := os.OpenFile(name, os.O_WRONLY, 0); err == nil {
			files = append(files, f)
		}
	}
	return files
}
