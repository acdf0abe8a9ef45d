package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"turnstile/internal/process/command"
)

// openBeneath opens a file or directory. Opening a pipe does not block.
func openBeneath(root, path string, flags int) (*os.File, error) {
	if path == "" {
		return nil, os.ErrNotExist
	}
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is no directory", root)
	}
	beneath, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = beneath.Close() }()
	return beneath.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK|flags, 0)
}

// homeOf is the directory in which a program that is started this way keeps its sessions: the variable's, or a
// directory in the user's HOME. Empty: unknown. A program in a container or on another machine keeps them elsewhere.
// It is read beneath root: the HOME of an isolated agent, which can put a link in the program's place, but not there.
func homeOf(spec command.Spec, variable, inHome string) (home, root string) {
	variables := spec.Env
	if len(spec.Argv) > 0 && filepath.Base(spec.Argv[0]) == "env" {
		for _, word := range spec.Argv[1:] {
			if !strings.Contains(word, "=") || strings.HasPrefix(word, "-") {
				break
			}
			variables = append(variables[:len(variables):len(variables)], word)
		}
	}
	var user string
	for _, entry := range variables {
		switch name, value, _ := strings.Cut(entry, "="); name {
		case "HOME":
			user = value
		case variable:
			home = value
		}
	}
	if spec.Home != "" {
		user = spec.Home
	}
	if home == "" && user != "" {
		home = filepath.Join(user, inHome)
	}
	if home != "" && !filepath.IsAbs(home) {
		home = filepath.Join(spec.Dir, home)
	}
	if spec.Home != "" && strings.HasPrefix(home, spec.Home+"/") {
		return home, spec.Home
	}
	return home, home
}
