package cli

import (
	"errors"
	"io"
	"os"
	"strings"

	"turnstile/internal/process/command"
	"turnstile/internal/process/workspace"
	"turnstile/pkg/agent"
)

// read takes the program's lines until their end. Each line after the one that reported the turn's
// end sends to beats.
func (r *run) read(out io.Reader, beats chan<- struct{}) error {
	err := command.CutLines(out, r.logger, func(line []byte) error {
		err := r.stream.line(line)
		if r.over() {
			select {
			case beats <- struct{}{}:
			default:
			}
		}
		return err
	})
	var line *command.LineError
	if errors.As(err, &line) && line.Cut { // it died in the middle of the line
		return nil
	}
	return err
}

// workspace is the directory in which the program works for a session. Empty: this program's.
func (a *Agent) workspace(session string) (string, error) {
	if a.config.Workspace == "" {
		return "", nil
	}
	return workspace.Root{Path: a.config.Workspace, Group: a.config.WorkspaceGroup}.Directory(session)
}

// environ is the program's environment.
func (a *Agent) environ(turn *agent.Turn) []string {
	env := a.env.ForTurn(os.Environ(), turn)
	if a.config.Workspace == "" {
		return env
	}
	for _, trust := range a.program.trust {
		name, _, _ := strings.Cut(trust, "=")
		if _, set := os.LookupEnv(name); !set {
			env = append(env, trust)
		}
	}
	return env
}
