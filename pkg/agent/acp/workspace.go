package acp

import (
	"fmt"
	"os"
	"path/filepath"

	"turnstile/internal/process/workspace"
	"turnstile/pkg/agent"
)

// directory is the directory in which a session's agent works.
func (a *Agent) directory(session string) (string, error) {
	if a.config.Workspace != "" {
		return workspace.Root{Path: a.config.Workspace, Group: a.config.WorkspaceGroup}.Directory(session)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", agent.Unavailable(fmt.Errorf("find the agent's directory: %w", err))
	}
	return dir, nil
}

// inside is an agent's path relative to dir, which may be dir itself. os.Root checks the links
// later.
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
