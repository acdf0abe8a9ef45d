package operator

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"turnstile/internal/process/workspace"
)

// workspaces are the directories that have those of sessions: that of TURNSTILE_WORKSPACE_DIR, and those of the
// agents in TURNSTILE_AGENTS_FILE.
func (p *Program) workspaces(flags map[string]string) ([]string, error) {
	named, err := p.agentsInFile(flags)
	roots := []string{p.Given(flags, "TURNSTILE_WORKSPACE_DIR")}
	for _, n := range named {
		roots = append(roots, n.WorkspaceDir)
	}
	roots = slices.DeleteFunc(roots, func(root string) bool { return root == "" })
	for i := range roots {
		roots[i] = filepath.Clean(roots[i])
	}
	slices.Sort(roots)
	return slices.Compact(roots), err
}

// directories are a session's on this machine. There are several if its agents worked in different places.
type directories struct {
	Workspace  string   `json:"workspace,omitempty"`
	Workspaces []string `json:"workspaces,omitempty"` // all of them, if there are several
}

func (d *directories) add(path string) {
	switch {
	case path == "":
	case d.Workspace == "":
		d.Workspace = path
	case len(d.Workspaces) == 0:
		d.Workspaces = []string{d.Workspace, path}
	default:
		d.Workspaces = append(d.Workspaces, path)
	}
}

func (d directories) String() string {
	if len(d.Workspaces) > 0 {
		return strings.Join(d.Workspaces, " and ")
	}
	return d.Workspace
}

// findDirectories returns a session's directories beneath the roots.
func findDirectories(roots []string, key string) (d directories) {
	for _, root := range roots {
		d.add(workspace.Find(root, key))
	}
	return d
}

// removeDirectories deletes a session's directories beneath the roots, and returns those that were there. After an
// error it goes on with the next one.
func removeDirectories(roots []string, key string) (d directories, err error) {
	for _, root := range roots {
		path, failed := workspace.Remove(root, key)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("session %s is deleted in Redis, but its directory is not: %w", key, failed))
			continue
		}
		d.add(path)
	}
	return d, err
}
