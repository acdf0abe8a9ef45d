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

// Directory is a session's below root: an absolute path without symlinks, for agents
// tell paths as they find them. It is made, for the worker's user only, if it is not
// there, and root with it. Every error is Retryable.
func Directory(root, session string) (string, error) {
	dir, err := directory(root, session)
	if err != nil {
		return "", agent.Retryable(fmt.Errorf("could not make the session's directory: %w", err))
	}
	return dir, nil
}

// Check reports whether directories can be made below root, which is made if it is
// not there. Where they cannot, every turn fails; a worker asks at its start, where
// somebody is looking.
func Check(root string) error {
	root, err := makeRoot(root)
	if err != nil {
		return err
	}
	probe, err := os.MkdirTemp(root, ".check-")
	if err != nil {
		return err
	}
	return os.Remove(probe)
}

// makeRoot makes root if it is not there, and answers it as an absolute path
// without symlinks.
func makeRoot(root string) (string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(root)
}

func directory(root, session string) (string, error) {
	root, err := makeRoot(root)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, name(session))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	// The agent of another session could have put a link there.
	if info, err := os.Lstat(dir); err != nil {
		return "", err
	} else if !info.IsDir() {
		return "", fmt.Errorf("%s is no directory", dir)
	}
	return dir, nil
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
