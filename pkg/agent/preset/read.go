package preset

import (
	"errors"
	"io"
	"os"
	"strings"

	"turnstile/internal/command"
	"turnstile/internal/workspace"
	"turnstile/pkg/agent"
)

// read takes the program's lines until their end.
func (r *run) read(out io.Reader, bad chan<- error) {
	err := command.Lines(out, func(line []byte) error {
		r.stream.line(line)
		if r.ended {
			select {
			case r.beats <- struct{}{}:
			default:
			}
		}
		return nil
	})
	var line *command.LineError
	switch {
	case err == nil:
	case errors.As(err, &line) && line.Cut: // it died in the middle of it
	default:
		bad <- err
		_, _ = io.Copy(io.Discard, out)
	}
}

// workspace is the directory in which the program works on a session; empty: this
// program's.
func (a *Agent) workspace(session string) (string, error) {
	if a.config.Workspace == "" {
		return "", nil
	}
	return workspace.Directory(a.config.Workspace, session)
}

// environ is the program's environment.
func (a *Agent) environ(turn agent.Turn) []string {
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
