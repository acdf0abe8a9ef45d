// Package workspace gives each session a directory of its own, in which its agent
// works, whichever adapter runs it.
package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"turnstile/pkg/agent"
)

// Root is the directory below which the sessions have theirs.
type Root struct {
	Path string // a relative one is below this process's directory

	// Group may write to directories of that group on the way: Kubernetes' fsGroup. Nil:
	// no group may.
	Group *int
}

// Directory is a session's: an absolute path without symlinks, for agents tell paths as
// they find them. It is made, for the worker's user only, if it is not there, and the
// root with it.
//
// The error is ErrUntrusted if other users could have prepared it, and else Retryable.
func (r Root) Directory(session string) (string, error) {
	dir, err := r.directory(session)
	if err == nil {
		return dir, nil
	}
	err = fmt.Errorf("could not make the session's directory: %w", err)
	if errors.Is(err, ErrUntrusted) {
		return "", err // somebody has to look at it, and it will not change until then
	}
	return "", agent.Retryable(err)
}

// Check reports whether directories can be made below the root, which is made if it is
// not there. Where they cannot, every turn fails; a worker asks at its start, where
// somebody is looking.
func (r Root) Check() error {
	path, err := r.open()
	if err != nil {
		return err
	}
	probe, err := os.MkdirTemp(path, ".check-")
	if err != nil {
		return err
	}
	return os.Remove(probe)
}

func (r Root) directory(session string) (string, error) {
	path, err := r.open()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(path, name(session))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	// Somebody who may write to the root, or the agent of another session, could have put
	// something else there.
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	return dir, r.own(dir, info)
}

// name is a session's below the root: a session key is no file name, and may be long.
func name(session string) string {
	sum := sha256.Sum256([]byte(session))
	return hex.EncodeToString(sum[:16])
}

// Remove deletes a session's directory with all that is in it, what an agent has made
// read-only (a cache of modules) included. It answers its path, "" if there was none.
// No link is followed.
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
	if _, err := dir.Lstat(own); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	err = dir.RemoveAll(own)
	if errors.Is(err, fs.ErrPermission) {
		_ = fs.WalkDir(dir.FS(), own, func(path string, d fs.DirEntry, _ error) error {
			if d != nil && d.IsDir() {
				_ = dir.Chmod(path, 0o700) // comes before it is read
			}
			return nil
		})
		err = dir.RemoveAll(own)
	}
	return filepath.Join(root, own), err
}
