// Package workspace gives each session a separate working directory for its agent, with every
// adapter.
package workspace

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"turnstile/pkg/agent"
)

// Root is the directory that contains the sessions' directories.
type Root struct {
	Path string // a relative one is below this process's directory

	// Group is a trusted group, such as Kubernetes' fsGroup. Its members may write to the group's
	// directories on the way. Nil: no group may.
	Group *int
}

// Directory returns a session's directory as an absolute path without symlinks, since agents
// report paths in that form. It creates the directory, for the worker's user only, and the root
// if they do not exist.
//
// The error wraps ErrUntrusted if other users could have prepared the directory. It is agent.Unavailable
// if the root is at fault, or the disk, and agent.Retryable if only this session's directory is, unless
// another user could have prepared that one.
func (r Root) Directory(session string) (string, error) {
	path, err := r.open()
	if err != nil {
		return "", failed(err, false)
	}
	dir := filepath.Join(path, name(session))
	return dir, r.make(dir)
}

// failed is the error of Directory. own: only this session's directory is at fault.
func failed(err error, own bool) error {
	err = fmt.Errorf("could not make the session's directory: %w", err)
	switch {
	case !own:
		return agent.Unavailable(err)
	case errors.Is(err, ErrUntrusted):
		return err // only an operator can repair that
	}
	return agent.Retryable(err)
}

// Place has the directories of a session's agent, which are named like those of Directory.
type Place struct{ Directory, Home, Temporary string }

// Place returns the directories for an agent of a session, and creates them. Its errors are those of
// Directory.
func (r Root) Place(session, agentName string) (p Place, err error) {
	if p.Directory, err = r.Directory(session); err != nil {
		return p, err
	}
	for suffix, dir := range map[string]*string{homes: &p.Home, temporaries: &p.Temporary} {
		*dir = filepath.Join(p.Directory+suffix, agentName)
		for _, d := range []string{p.Directory + suffix, *dir} {
			if err := r.make(d); err != nil {
				return p, err
			}
		}
	}
	return p, nil
}

// Beside a session's directory are two others, with a directory for each of its agents. Their names
// are that of the session's and a suffix.
const (
	homes       = ".home"
	temporaries = ".tmp"
)

// Check reports whether directories can be created below the root, which it creates if it does not
// exist, and files in them. Otherwise every turn would fail. A worker calls it at its start, while
// somebody is watching.
func (r Root) Check() error {
	path, err := r.open()
	if err != nil {
		return err
	}
	probe := filepath.Join(path, ".check-"+rand.Text())
	if err = os.Mkdir(probe, 0o700); err == nil {
		err = r.adopt(probe)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(probe, "file"), nil, 0o600)
	}
	return cmp.Or(err, os.RemoveAll(probe))
}

// make creates a directory of a session if it does not exist.
func (r Root) make(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return failed(err, false)
	}
	if err := r.adopt(dir); err != nil {
		return failed(err, true)
	}
	return nil
}

// adopt checks a directory: a user who may write to the root, or the agent of another session, could
// have put something else there. It gives this process's user all rights to it, whatever the umask or
// an agent has left of them.
func (r Root) adopt(dir string) error {
	info, err := os.Lstat(dir)
	if err == nil {
		err = r.own(dir, info)
	}
	if err == nil {
		err = grant(dir, info)
	}
	return err
}

func grant(dir string, info fs.FileInfo) error {
	if info.Mode()&0o700 == 0o700 {
		return nil
	}
	return os.Chmod(dir, info.Mode()|0o700)
}

// name returns the name of a session's directory: a session key may be long and is not a valid
// file name.
func name(session string) string {
	sum := sha256.Sum256([]byte(session))
	return hex.EncodeToString(sum[:16])
}

// Find returns the path of a session's directory, or "" if there is none.
func Find(root, session string) string {
	path := filepath.Join(root, name(session))
	if _, err := os.Lstat(path); err != nil {
		return ""
	}
	return path
}

// Remove deletes a session's directory with everything in it, also files that an agent made
// read-only (a cache of modules). It returns the directory's path, or "" if there was none. It
// follows no link. It deletes the directories of Place in the same way.
func Remove(root, session string) (path string, err error) {
	dir, err := os.OpenRoot(root)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer dir.Close()
	own := name(session)
	for _, beside := range []string{own + homes, own + temporaries} {
		if err := remove(dir, beside); err != nil {
			return filepath.Join(root, beside), err
		}
	}
	if _, err := dir.Lstat(own); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return filepath.Join(root, own), remove(dir, own)
}

// lifted is the depth at which remove lifts a directory to the top. RemoveAll opens all directories on the way to a file.
const lifted = 20

// remove deletes a directory, also one whose contents an agent has locked, or nested deeper than files can be open.
func remove(dir *os.Root, own string) error {
	err := dir.RemoveAll(own)
	for _, hard := range []error{fs.ErrPermission, syscall.EMFILE, syscall.ENFILE, syscall.ENAMETOOLONG} {
		if errors.Is(err, hard) {
			return removeHard(dir, own)
		}
	}
	return err
}

func removeHard(dir *os.Root, own string) error {
	left := []string{own}
	for len(left) > 0 {
		at := left[len(left)-1]
		var deep []string
		_ = fs.WalkDir(dir.FS(), at, func(path string, d fs.DirEntry, _ error) error {
			if d == nil || !d.IsDir() {
				return nil
			}
			_ = dir.Chmod(path, 0o700) // called before the directory is read
			if strings.Count(path, "/")-strings.Count(at, "/") < lifted {
				return nil
			}
			if top := filepath.Join(own, rand.Text()); dir.Rename(path, top) == nil {
				deep = append(deep, top)
			}
			return fs.SkipDir
		})
		if len(deep) > 0 {
			left = append(left, deep...) // first, while their parents are there
			continue
		}
		if err := dir.RemoveAll(at); err != nil {
			return err
		}
		left = left[:len(left)-1]
	}
	return nil
}
