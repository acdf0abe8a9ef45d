package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
)

// ErrUntrusted is wrapped by errors about a path that another user (not root, and not this
// process's) may change or may have prepared, for example with a link to elsewhere or with files
// that an agent obeys.
var ErrUntrusted = errors.New("another user could have prepared it")

// maxLinks is how many symbolic links a path may have, as on Linux.
const maxLinks = 40

// open creates the root if it does not exist. It returns it as an absolute path without symlinks.
//
// It walks down from / and checks each directory before its contents. In a directory that passed,
// no other user can replace a checked name, whether a directory or a link. The target of a link is
// walked in the same way. So nobody else can change where the returned path leads.
func (r Root) open() (string, error) {
	path, err := filepath.Abs(r.Path)
	if err != nil {
		return "", err
	}
	at, rest, links := "/", "."+path, 0
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		next := filepath.Join(at, name)
		if name == ".." {
			at = next // it was checked on the way here
			continue
		}
		info, err := lookAt(next)
		if err == nil {
			info, err = r.repair(next, info, rest == "")
		}
		if err == nil {
			err = r.component(next, info)
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s leads through more than %d symbolic links", path, maxLinks)
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = target + "/" + rest
	}
	return at, nil
}

// lookAt creates a directory if nothing is there, and returns the file's information.
func lookAt(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if info, err = os.Lstat(path); err == nil {
		err = grant(path, info)
	}
	if err != nil {
		return nil, err
	}
	return os.Lstat(path)
}

var log atomic.Pointer[slog.Logger]

// LogTo sets where repairs are logged. Defaults to slog.Default().
func LogTo(l *slog.Logger) { log.Store(l) }

func logger() *slog.Logger { return cmp.Or(log.Load(), slog.Default()) }

// repair undoes what an agent may have done to the mode of a directory of this process's user, so that one agent cannot
// end the turns of all: no rule of isolation stops chmod. last: it is the root. A worker that is root repairs no other
// one, since most directories are root's.
func (r Root) repair(path string, info fs.FileInfo, last bool) (fs.FileInfo, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != os.Geteuid() || !last && stat.Uid == 0 {
		return info, nil
	}
	want := info.Mode() | 0o100
	if last {
		want |= 0o700
	}
	if info.Mode()&fs.ModeSticky == 0 {
		want &^= 0o002
		if !r.trusts(stat) {
			want &^= 0o020
		}
	}
	if want == info.Mode() {
		return info, nil
	}
	if err := os.Chmod(path, want); err != nil {
		return info, err
	}
	logger().Warn("the mode of a directory of the workspace let others write, or this worker not: repaired; an agent may have changed it", "path", path, "was", info.Mode(), "now", want)
	return os.Lstat(path)
}

// component checks a link or a directory on the way to the sessions' directories.
func (r Root) component(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return fmt.Errorf("the owner of %s is not known on this system", path)
	case stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return untrusted("%s belongs to uid %d, neither to root nor to this process (uid %d): chown it, or use another directory", path, stat.Uid, os.Geteuid())
	case info.Mode()&fs.ModeSymlink != 0:
		return nil // links cannot be changed
	case !info.IsDir():
		return fmt.Errorf("%s is no directory", path)
	case info.Mode()&fs.ModeSticky != 0:
		return nil // only root and we can replace files of root and ours
	case r.trusts(stat) && stat.Uid == 0 && info.Mode()&fs.ModeSetgid != 0:
		// Kubernetes makes an emptyDir writable for everybody and then gives it to the group.
		// Only the pod's containers can reach it, and all of them are in the group.
		return nil
	}
	return r.writers(path, info, stat)
}

// own checks a session's directory. A sticky bit does not help there: whoever may write to it may
// add files that an agent obeys.
func (r Root) own(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return untrusted("%s is no directory: find out who has put it there, and remove it", path)
	case !ok || int(stat.Uid) != os.Geteuid():
		return untrusted("%s does not belong to this process (uid %d): find out who has made it, and remove or chown it", path, os.Geteuid())
	case private(filepath.Dir(path)):
		return nil // an agent may have run chmod -R 777, but no other user can reach it
	}
	return r.writers(path, info, stat)
}

// private reports whether a directory belongs to this process's user and lets nobody else through.
// Then only root reaches its contents, whatever the modes inside permit.
func private(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&0o011 == 0
}

// writers checks who may write to a directory. On a system with access control lists the group's
// bits cover everybody whom the lists name.
func (r Root) writers(path string, info fs.FileInfo, stat *syscall.Stat_t) error {
	switch perm := info.Mode().Perm(); {
	case perm&0o002 != 0:
		return untrusted("everybody may write to %s (mode %o): chmod o-w it, or use another directory", path, perm)
	case perm&0o020 != 0 && !r.trusts(stat):
		return untrusted("group %d may write to %s (mode %o): chmod g-w it, or set TURNSTILE_WORKSPACE_GROUP=%[1]d if all of that group may, as with Kubernetes' fsGroup", stat.Gid, path, perm)
	}
	return nil
}

// trusts reports whether the trusted group owns the file.
func (r Root) trusts(stat *syscall.Stat_t) bool { return r.Group != nil && int(stat.Gid) == *r.Group }

func untrusted(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUntrusted, fmt.Sprintf(format, args...))
}
