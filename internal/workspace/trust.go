package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrUntrusted marks a path that another user than root and this process's may change,
// or may have prepared: with a link to elsewhere, or with files that an agent obeys.
var ErrUntrusted = errors.New("somebody else could have prepared it")

// maxLinks is how many symbolic links a path may have, as on Linux.
const maxLinks = 40

// open makes the root if it is not there, and returns it as an absolute path without
// symlinks.
//
// It goes down from / and looks at each directory before what lies in it. In those that
// pass, nobody else can replace a name that was looked at: neither a directory, nor a
// link, whose target it goes through in the same way. So the path that it returns stays
// what it is.
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
			at = next // it was passed on the way here
			continue
		}
		info, err := lookAt(next)
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

// lookAt makes a directory if nothing is there, and looks at what is there then.
func lookAt(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.Lstat(path)
}

// component judges a link or a directory on the way to the sessions' directories.
func (r Root) component(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return fmt.Errorf("the owner of %s is not known on this system", path)
	case stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return untrusted("%s belongs to uid %d, neither to root nor to this process (uid %d): chown it, or use another directory", path, stat.Uid, os.Geteuid())
	case info.Mode()&fs.ModeSymlink != 0:
		return nil // nobody can change one
	case !info.IsDir():
		return fmt.Errorf("%s is no directory", path)
	case info.Mode()&fs.ModeSticky != 0:
		return nil // what is ours or root's can only be replaced by us or root
	case r.trusts(stat) && stat.Uid == 0 && info.Mode()&fs.ModeSetgid != 0:
		// Kubernetes makes an emptyDir for everybody and then gives it to the group. Only
		// the pod's containers can reach it, and all are in the group.
		return nil
	}
	return r.writers(path, info, stat)
}

// own judges a session's directory. There, no sticky bit helps: whoever may write to it
// may put files there that an agent obeys.
func (r Root) own(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return untrusted("%s is no directory: find out who has put it there, and remove it", path)
	case !ok || int(stat.Uid) != os.Geteuid():
		return untrusted("%s does not belong to this process (uid %d): find out who has made it, and remove or chown it", path, os.Geteuid())
	case private(filepath.Dir(path)):
		return nil // agents open it, with chmod -R 777 for instance, and nobody gets to it
	}
	return r.writers(path, info, stat)
}

// private reports whether a directory is this process's user's, and lets nobody else
// through. Only root gets to what is in it, whatever that permits.
func private(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&0o011 == 0
}

// writers judges who may write to a directory. On a system with access control lists the
// bits of the group stand for all whom they name.
func (r Root) writers(path string, info fs.FileInfo, stat *syscall.Stat_t) error {
	switch perm := info.Mode().Perm(); {
	case perm&0o002 != 0:
		return untrusted("everybody may write to %s (mode %o): chmod o-w it, or use another directory", path, perm)
	case perm&0o020 != 0 && !r.trusts(stat):
		return untrusted("group %d may write to %s (mode %o): chmod g-w it, or set TURNSTILE_WORKSPACE_GROUP=%[1]d if all of that group may, as with Kubernetes' fsGroup", stat.Gid, path, perm)
	}
	return nil
}

// trusts reports whether what is there is the trusted group's.
func (r Root) trusts(stat *syscall.Stat_t) bool { return r.Group != nil && int(stat.Gid) == *r.Group }

func untrusted(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUntrusted, fmt.Sprintf(format, args...))
}
