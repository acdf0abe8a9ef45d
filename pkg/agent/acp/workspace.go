package acp

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

// directory is where a session's agent works: an absolute path without symlinks, for
// agents tell paths as they find them. Below a workspace it is made, for the worker's
// user only, if it is not there.
func (a *Agent) directory(session string) (string, error) {
	if a.config.Workspace == "" {
		dir, err := os.Getwd()
		if err != nil {
			return "", fmt.Errorf("find the agent's directory: %w", err)
		}
		return dir, nil
	}
	if err := os.MkdirAll(a.config.Workspace, 0o700); err != nil {
		return "", noDirectory(err)
	}
	workspace, err := filepath.EvalSymlinks(a.config.Workspace)
	if err != nil {
		return "", noDirectory(err)
	}
	// A session key is no file name, and may be long.
	sum := sha256.Sum256([]byte(session))
	dir := filepath.Join(workspace, hex.EncodeToString(sum[:16]))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", noDirectory(err)
	}
	// The agent of another session could have put a link there.
	if info, err := os.Lstat(dir); err != nil {
		return "", noDirectory(err)
	} else if !info.IsDir() {
		return "", noDirectory(fmt.Errorf("%s is no directory", dir))
	}
	return dir, nil
}

func noDirectory(err error) error {
	return agent.Retryable(fmt.Errorf("make the session's directory: %w", err))
}

// inside is a path of the agent's as one below dir, which may be dir itself. Links are
// not followed here: that is os.Root's affair.
func inside(dir, path string) (string, error) {
	if filepath.IsAbs(path) {
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return "", outside(path)
		}
		path = rel
	}
	if path = filepath.Clean(path); !filepath.IsLocal(path) {
		return "", outside(path)
	}
	return path, nil
}

func outside(path string) error {
	return fmt.Errorf("%.200q is not in the session's directory", path)
}
