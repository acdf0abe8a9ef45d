//go:build linux

package isolation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// targets are what the attacking agent attacks.
type targets struct {
	Pids      []int // worker and guardian
	Other     int   // the other session's agent
	Dir       string
	Files     []string // of the worker's user
	Temporary string   // another program's file in /tmp
	Abstract  string
	Shared    int // id of shared memory

	Redis, Gateway, Pages, Metadata, Named, UDP string // addresses
}

// attacks are by the ids of the table. An error says that the attack was stopped.
var attacks = map[string]func(t targets) error{
	"own-environment": func(targets) error {
		for _, e := range os.Environ() {
			name, _, _ := strings.Cut(e, "=")
			switch name {
			case "TURNSTILE_SESSION", "TURNSTILE_SESSION_ID", "TURNSTILE_MESSAGE_ID", "TURNSTILE_TURN_ID", "TURNSTILE_FENCE":
			default:
				if strings.HasPrefix(name, "TURNSTILE_") || strings.HasPrefix(name, "REDIS") || strings.Contains(e, secret) {
					return nil
				}
			}
		}
		return errors.New("nothing found")
	},
	"own-files": func(targets) error {
		for fd := 3; fd < 64; fd++ {
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			if err == nil && flags&unix.FD_CLOEXEC == 0 {
				return nil // Go's own have the flag
			}
		}
		return errors.New("none is open")
	},
	"outlive": func(targets) error {
		for _, name := range []string{"lock-orphan", "lock-adopted"} {
			child := exec.Command(os.Args[0], "role=fork", name)
			child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := child.Run(); err != nil {
				return err
			}
			for !isLocked(name) {
				time.Sleep(time.Millisecond) // until the grandchild has it
			}
			// The second one becomes this process's child, not the guardian's.
			must(unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		}
		return nil // whether they outlive the turn, the test sees
	},
	"worker-environment": func(t targets) error { return any2(t.Pids, environment) },
	"worker-memory":      func(t targets) error { return any2(t.Pids, memory) },
	"worker-files":       func(t targets) error { return any2(t.Pids, descriptors) },
	"worker-signal":      func(t targets) error { return any2(t.Pids, signal) },
	"worker-limits": func(t targets) error {
		var now unix.Rlimit
		if err := unix.Prlimit(t.Pids[0], unix.RLIMIT_CORE, nil, &now); err != nil {
			return err
		}
		return unix.Prlimit(t.Pids[0], unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	},
	"worker-priority": func(t targets) error {
		worker := t.Pids[0]
		if _, err := unix.Getpriority(unix.PRIO_PROCESS, worker); err != nil {
			return err // a wrapper hides it, and processes of its user are others
		}
		return firstOf(
			func() error { return unix.Setpriority(unix.PRIO_PROCESS, worker, 1) },
			func() error { return unix.Setpriority(unix.PRIO_USER, 0, 1) },
			func() error {
				var cpus unix.CPUSet
				if err := unix.SchedGetaffinity(worker, &cpus); err != nil {
					return err
				}
				return unix.SchedSetaffinity(worker, &cpus)
			},
			func() error {
				return unix.SchedSetAttr(worker, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_BATCH}, 0)
			},
			func() error { // SCHED_BATCH is 3, and a priority of 0
				var priority int32
				return errnoOf(unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(worker), unix.SCHED_BATCH, uintptr(unsafe.Pointer(&priority))))
			},
			func() error {
				var priority int32
				return errnoOf(unix.Syscall(unix.SYS_SCHED_SETPARAM, uintptr(worker), uintptr(unsafe.Pointer(&priority)), 0))
			},
			func() error { return errnoOf(unix.Syscall(unix.SYS_IOPRIO_SET, 1, uintptr(worker), 2<<13|7)) },
			func() error { return errnoOf(unix.Syscall(unix.SYS_IOPRIO_SET, 3, uintptr(os.Getuid()), 2<<13|7)) },
		)
	},

	"user-read": func(t targets) error {
		return any2(t.Files, func(path string) error { _, err := os.ReadFile(path); return err })
	},
	"user-write": func(t targets) error {
		return any2(t.Files, func(path string) error {
			if _, err := os.Lstat(path); err != nil {
				return err // what a wrapper shows in its place is nobody's
			}
			return firstOf(
				func() error { f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0); closeIf(f, err); return err },
				func() error { return os.WriteFile(path+".new", nil, 0o600) },
				func() error { return os.Rename(path, path+".moved") },
				func() error { return os.Remove(path) },
				func() error { return os.Truncate(path, 0) },
				func() error { return os.Link(path, filepath.Join(os.Getenv("HOME"), "linked")) },
			)
		})
	},
	"user-mode": func(t targets) error {
		return any2(t.Files, func(path string) error {
			if _, err := os.Stat(path); err != nil {
				return err
			}
			return os.Chmod(path, 0o600)
		})
	},

	"other-environment": func(t targets) error { return environment(t.Other) },
	"other-memory":      func(t targets) error { return memory(t.Other) },
	"other-files":       func(t targets) error { return descriptors(t.Other) },
	"other-signal":      func(t targets) error { return signal(t.Other) },
	"other-command": func(t targets) error {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", t.Other))
		if err == nil && !bytes.Contains(text, []byte("role=other")) {
			err = errors.New("another process has its number")
		}
		return err
	},
	"other-read": func(t targets) error {
		return firstOf(
			func() error { _, err := os.ReadFile(filepath.Join(t.Dir, "ready")); return err },
			func() error { _, err := os.ReadDir(t.Dir); return err },
			func() error {
				names, err := os.ReadDir(filepath.Dir(t.Dir))
				if err == nil && !slices.ContainsFunc(names, func(e os.DirEntry) bool { return e.Name() == filepath.Base(t.Dir) }) {
					err = errors.New("another directory is in its place")
				}
				return err
			},
			func() error { return throughLink(filepath.Join(t.Dir, "ready")) },
			func() error { _, err := os.ReadFile(fmt.Sprintf("/proc/%d/cwd/ready", t.Other)); return err },
		)
	},
	"other-watch": func(t targets) error {
		return firstOf(
			func() error { return watch(t.Dir) },
			func() error {
				fd, err := unix.FanotifyInit(unix.FAN_REPORT_FID, 0)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				return unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_CREATE, unix.AT_FDCWD, t.Dir)
			},
		)
	},
	"other-write": func(t targets) error {
		return firstOf(
			func() error { return os.WriteFile(filepath.Join(t.Dir, "new"), nil, 0o600) },
			func() error { return os.Remove(filepath.Join(t.Dir, "spare")) },
			func() error { return os.Rename(filepath.Join(t.Dir, "spare"), filepath.Join(t.Dir, "spared")) },
			func() error { return os.Mkdir(filepath.Join(t.Dir, "dir"), 0o700) },
			func() error { return os.Rename(t.Dir, t.Dir+"-gone") },
		)
	},
	"other-temporary": func(t targets) error {
		return firstOf(
			func() error { _, err := os.ReadFile(t.Temporary); return err },
			func() error { f, err := os.OpenFile(t.Temporary, os.O_WRONLY, 0); closeIf(f, err); return err },
		)
	},
	"other-shared": func(t targets) error {
		_, err := unix.SysvShmAttach(t.Shared, 0, unix.SHM_RDONLY)
		return err
	},
	"other-abstract": func(t targets) error { return connect("unix", "@"+t.Abstract) },
	"other-socket":   func(t targets) error { return connect("unix", filepath.Join(t.Dir, "socket")) },

	"redis":    func(t targets) error { return tcp(t.Redis) },
	"gateway":  func(t targets) error { return tcp(t.Gateway) },
	"pages":    func(t targets) error { return tcp(t.Pages) },
	"metadata": func(t targets) error { return tcp(t.Metadata) },
	"named":    func(t targets) error { return tcp(t.Named) },
	"listen": func(targets) error {
		l, err := net.Listen("tcp", "127.0.0.1:0") // with MPTCP, if it can be had
		if err == nil {
			_ = l.Close()
		}
		return err
	},
	"listen-any": func(targets) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err == nil {
			err = unix.Listen(fd, 1) // without bind
		}
		return err
	},
	"udp": func(t targets) error {
		c, err := net.Dial("udp", t.UDP)
		if err == nil {
			_, err = c.Write([]byte("hello"))
		}
		if err == nil {
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			_, err = c.Read(make([]byte, 8))
		}
		return err
	},
	"privileges": func(targets) error {
		set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
		if err == nil && set == 1 {
			err = errors.New("no_new_privs is set")
		}
		return err
	},
}

// any2 tries an attack on several targets until it succeeds.
func any2[T any](on []T, attack func(T) error) error {
	var errs []error
	for _, target := range on {
		err := attack(target)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// firstOf tries several ways until one succeeds.
func firstOf(ways ...func() error) error {
	return any2(ways, func(way func() error) error { return way() })
}

func environment(pid int) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err == nil && len(text) == 0 {
		err = errors.New("it is empty")
	}
	return err
}

func memory(pid int) error {
	return firstOf(
		func() error {
			f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
			closeIf(f, err)
			return err
		},
		func() error { _, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid)); return err },
		func() error {
			var word [8]byte
			local := []unix.Iovec{{Base: &word[0], Len: 8}}
			_, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
			if errors.Is(err, unix.EFAULT) {
				return nil // it may, and nothing is mapped there
			}
			return err
		},
		func() error {
			err := unix.PtraceSeize(pid)
			if err == nil {
				_ = unix.PtraceDetach(pid)
			}
			return err
		},
	)
}

func descriptors(pid int) error {
	return firstOf(
		func() error { _, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/1", pid)); return err },
		func() error {
			f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", pid), os.O_WRONLY|unix.O_NONBLOCK, 0)
			closeIf(f, err)
			return err
		},
		func() error {
			pidfd, err := unix.PidfdOpen(pid, 0)
			if err == nil {
				_, err = unix.PidfdGetfd(pidfd, 1, 0)
			}
			return err
		},
	)
}

// signal sends one that does nothing, in several ways.
func signal(pid int) error {
	return firstOf(
		func() error { return unix.Kill(pid, unix.SIGURG) },
		func() error { return unix.Tgkill(pid, pid, unix.SIGURG) },
		func() error {
			pidfd, err := unix.PidfdOpen(pid, 0)
			if err == nil {
				err = unix.PidfdSendSignal(pidfd, unix.SIGURG, nil, 0)
			}
			return err
		},
	)
}

// throughLink reads a file by a link from this agent's directory.
func throughLink(path string) error {
	_ = os.Remove("link")
	if err := os.Symlink(path, "link"); err != nil {
		return err
	}
	_, err := os.ReadFile("link")
	return err
}

func connect(network, address string) error {
	c, err := net.Dial(network, address)
	if err == nil {
		_ = c.Close()
	}
	return err
}

// tcp connects in every way that the kernel has.
func tcp(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	to := &unix.SockaddrInet4{Port: number, Addr: [4]byte(net.ParseIP(host).To4())}
	with := func(domain, protocol int, connect func(fd int) error) func() error {
		return func() error {
			fd, err := unix.Socket(domain, unix.SOCK_STREAM, protocol)
			if err != nil {
				return err
			}
			defer func() { _ = unix.Close(fd) }()
			return connect(fd)
		}
	}
	plain := func(fd int) error { return unix.Connect(fd, to) }
	return firstOf(
		with(unix.AF_INET, 0, plain),
		with(unix.AF_INET, unix.IPPROTO_MPTCP, plain),
		with(unix.AF_INET, 256, plain), // SMC
		with(unix.AF_SMC, 0, plain),
		with(unix.AF_INET, 0, func(fd int) error { return unix.Sendto(fd, []byte("PING\r\n"), unix.MSG_FASTOPEN, to) }),
		with(unix.AF_INET, 0, func(fd int) error { return unix.Sendmsg(fd, []byte("PING\r\n"), nil, to, unix.MSG_FASTOPEN) }),
		with(unix.AF_INET, 0, func(fd int) error {
			if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1); err != nil {
				return err
			}
			return plain(fd)
		}),
		func() error { // requests of io_uring pass no filter of system calls
			_, _, err := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&[128]byte{})), 0)
			if err != 0 {
				return err
			}
			return fmt.Errorf("io_uring is there: %w", errAlarm)
		},
	)
}

// errAlarm says that an attack needs another look.
var errAlarm = errors.New("this attack was not tried to its end")

// isLocked reports whether a process holds the lock of role stay.
func isLocked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}

func closeIf(f *os.File, err error) {
	if err == nil {
		_ = f.Close()
	}
}

// roles are the programs of the agents and their children.
var roles = map[string]func(args []string){
	// either becomes the attacker or the other agent, as the message says.
	"either": func([]string) {
		text, err := io.ReadAll(os.Stdin)
		must(err)
		role, input, _ := strings.Cut(string(text), " ")
		must(syscall.Exec(os.Args[0], []string{os.Args[0], "role=" + role, input}, os.Environ()))
	},
	// other is the agent that is attacked. It runs until the test ends.
	"other": func(args []string) {
		if dir := args[0]; dir != "" {
			must(os.Chdir(dir))
		}
		here, err := os.Getwd()
		must(err)
		_, err = net.Listen("unix", "socket")
		must(err)
		name := fmt.Sprintf("turnstile-isolation-%d-%d", os.Getpid(), time.Now().UnixNano())
		_, err = net.Listen("unix", "@"+name)
		must(err)
		shared, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
		must(err)
		_, err = unix.SysvShmAttach(shared, 0, 0)
		must(err)
		_, _ = unix.SysvShmCtl(shared, unix.IPC_RMID, nil) // it ends with this process
		must(os.WriteFile("spare", nil, 0o600))
		text, err := json.Marshal(targets{Dir: here, Abstract: name, Shared: shared})
		must(err)
		must(os.WriteFile("ready.part", text, 0o600))
		must(os.Rename("ready.part", "ready"))
		select {}
	},
	// attack tries all attacks, and replies with what stopped each.
	"attack": func(args []string) {
		var t targets
		must(json.Unmarshal([]byte(args[0]), &t))
		results := map[string]string{}
		for _, r := range table {
			if err := attacks[r.id](t); err != nil {
				results[r.id] = err.Error()
			}
		}
		must(json.NewEncoder(os.Stdout).Encode(results))
	},
	// fork starts a process in another session, and exits.
	"fork": func(args []string) {
		child := exec.Command(os.Args[0], "role=stay", args[0])
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		must(child.Start())
	},
	// stay holds a lock as long as it lives.
	"stay": func(args []string) {
		f, err := os.OpenFile(args[0], os.O_CREATE|os.O_RDWR, 0o600)
		must(err)
		must(unix.Flock(int(f.Fd()), unix.LOCK_EX))
		select {}
	},
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// watch learns the names of files in a directory.
func watch(dir string) error {
	if _, err := os.Lstat(dir); err != nil {
		return err
	}
	fd, err := unix.InotifyInit()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, dir, unix.IN_CREATE)
	return err
}

func errnoOf(_, _ uintptr, errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}
