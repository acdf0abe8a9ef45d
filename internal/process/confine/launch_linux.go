package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"turnstile/internal/process/command"
	"turnstile/internal/process/guardian"
)

// leastABI is the version of Landlock that scopes signals and abstract sockets. Linux 6.12 has it.
const leastABI = 6

// Check reports whether this system can confine programs.
func Check() error { return judge(ll.LandlockGetABIVersion()) }

func judge(version int, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%w: it has no Landlock (%w); use Linux 6.12 or newer with landlock among its LSMs, or TURNSTILE_ISOLATION=wrapper", errUnsupported, err)
	case version < leastABI:
		return fmt.Errorf("%w: its Landlock has version %d, and %d is needed; use Linux 6.12 or newer, or TURNSTILE_ISOLATION=wrapper", errUnsupported, version, leastABI)
	case auditArch() == 0:
		return fmt.Errorf("%w: it is no amd64 or arm64; use TURNSTILE_ISOLATION=wrapper", errUnsupported)
	}
	return nil
}

// system are the files and directories that every confined program may read and execute. Those in
// /etc are for the loader, TLS, names of hosts and users, time, shells and git, which fails if it
// may not read its own. In /proc Landlock
// keeps the environment, memory and files of processes that are not confined together with the
// reader.
var system = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/proc", "/sys/devices/system/cpu", "/sys/fs/cgroup",
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload",
	"/etc/ca-certificates", "/etc/crypto-policies", "/etc/pki/ca-trust", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf",
	"/etc/gai.conf", "/etc/host.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/protocols", "/etc/resolv.conf", "/etc/services",
	"/etc/group", "/etc/passwd", "/etc/localtime", "/etc/timezone", "/etc/locale.conf",
	"/etc/bash.bashrc", "/etc/bashrc", "/etc/profile", "/etc/profile.d", "/etc/inputrc", "/etc/terminfo",
	"/etc/fonts", "/etc/gitconfig", "/etc/mime.types", "/etc/os-release",
}

// devices may be read and written.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// launch becomes the program at path. It returns only an error.
func launch(confinement, path string, argv []string) error {
	parent := os.Getppid()
	var c *command.Confinement
	if err := json.Unmarshal([]byte(confinement), &c); err != nil {
		return err
	}
	// Restricting keeps to this thread what must be set before exec, and exec ends the others.
	runtime.LockOSThread()
	guardian.RaiseOOMScore()
	if c != nil {
		rules := []landlock.Rule{
			landlock.RWDirs(c.Write...).WithRefer(),
			landlock.RWFiles(devices...).WithIoctlDev().IgnoreIfMissing(),
		}
		for _, path := range append(system, c.Read...) {
			info, err := os.Stat(path)
			switch {
			case errors.Is(err, os.ErrNotExist):
			case err != nil:
				return err
			case info.IsDir():
				rules = append(rules, landlock.RODirs(path))
			default:
				rules = append(rules, landlock.ROFiles(path))
			}
		}
		for _, port := range c.Ports {
			rules = append(rules, landlock.ConnectTCP(uint16(port)))
		}
		for _, port := range c.Listen {
			rules = append(rules, landlock.BindTCP(uint16(port)))
		}
		if err := Check(); err != nil {
			return err
		}
		if err := landlock.V6.Restrict(rules...); err != nil { // sets no_new_privs, too
			return err
		}
		if err := filterCalls(); err != nil {
			return fmt.Errorf("filter system calls: %w", err)
		}
		if err := dropCapabilities(); err != nil {
			return fmt.Errorf("drop capabilities: %w", err)
		}
	}
	// The guardian set it for the thread that it started; exec keeps this one's.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	if os.Getppid() != parent {
		return errors.New("its guardian is dead")
	}
	env := os.Environ()
	for i := range env {
		env[i] = strings.TrimPrefix(env[i], command.LauncherPrefix)
	}
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, argv, env))
}

// dropCapabilities gives up this thread's capabilities. no_new_privs keeps exec from giving them back, to root too.
func dropCapabilities() error {
	for c := 0; c <= unix.CAP_LAST_CAP; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
			break // without CAP_SETPCAP there is little to give up, and an old kernel has fewer
		}
	}
	none := [2]unix.CapUserData{}
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
}
