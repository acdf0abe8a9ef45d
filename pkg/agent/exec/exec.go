package exec

import (
	"errors"
	"fmt"
	"log/slog"
	osexec "os/exec"
	"strings"
	"time"

	"turnstile/internal/process/command"
	"turnstile/internal/process/guardian"
	"turnstile/pkg/agent"
)

// Format is the format of a command's stdin and stdout.
type Format string

// The formats.
const (
	Text  Format = "text"  // the message on stdin, the reply on stdout
	JSONL Format = "jsonl" // the turn on stdin, events on stdout, one JSON object a line
)

// Config has the command and its settings. A turn fails if its command writes more than 8 MiB of
// text, or in the format JSONL more than 8 MiB in a line or 64 MiB in all.
type Config struct {
	// Command is the program and its arguments, see SplitCommand. No shell is involved. A program
	// without a slash is looked up in PATH at every turn.
	Command []string

	// Format defaults to Text.
	Format Format

	// Env names further environment variables of this program that the command gets. A name that
	// ends in * means all names with that prefix. REDIS_URL and names that begin with TURNSTILE_
	// cannot be passed on. NAME=VALUE sets a variable, -NAME keeps
	// one from being passed on.
	Env []string

	// Grace is how long a command may run after SIGINT before it is killed. Defaults to 5 s.
	// Negative: it is killed at once.
	Grace time.Duration

	// Dir is the command's working directory. Defaults to this program's.
	Dir string

	// Isolation keeps the command from other sessions and the worker. With it, Dir defaults to the
	// session's directory.
	Isolation agent.Isolation

	// Logger logs each line of the command's stderr at debug. Defaults to slog.Default().
	Logger *slog.Logger
}

// Agent runs Config.Command for every turn.
type Agent struct {
	config   Config
	env      command.Env
	isolator command.Isolator
	patience time.Duration // with a command that has closed its stdout
}

// Init must be the first call in main, and in TestMain of tests that run agents: the program's
// binary is also the guardian of its agents' processes. A worker calls program.Init instead, which
// also protects its process from its agents.
func Init() { guardian.Init() }

// New checks the configuration. It fails if Init was not called.
func New(config Config) (*Agent, error) {
	if !guardian.Ready() {
		return nil, errors.New("exec agent: exec.Init was not called: call it first thing in main (in tests: in TestMain)")
	}
	if len(config.Command) == 0 || strings.TrimSpace(config.Command[0]) == "" {
		return nil, errors.New("exec agent: the command is empty")
	}
	for _, word := range config.Command {
		if strings.IndexByte(word, 0) >= 0 {
			return nil, errors.New("exec agent: the command contains a zero byte")
		}
	}
	switch config.Format {
	case "":
		config.Format = Text
	case Text, JSONL:
	default:
		return nil, fmt.Errorf("exec agent: unknown format %q: use %s or %s", config.Format, Text, JSONL)
	}
	switch {
	case config.Grace == 0:
		config.Grace = 5 * time.Second
	case config.Grace < 0:
		config.Grace = 0
	}
	env, err := command.NewEnv(config.Env)
	if err != nil {
		return nil, fmt.Errorf("exec agent: %w", err)
	}
	isolator, err := command.NewIsolator(config.Isolation, config.Command...)
	if err != nil {
		return nil, fmt.Errorf("exec agent: %w", err)
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	return &Agent{config, env, isolator, max(config.Grace, command.ClosedPatience)}, nil
}

// Traits says that commands of the format JSONL may take steers.
func (a *Agent) Traits() agent.Traits { return agent.Traits{Steerable: a.config.Format == JSONL} }

// Check reports whether the command's program can be found now. A program that is missing when a
// turn starts fails that turn retryably. A worker checks at its start, when an operator sees the
// error.
func (a *Agent) Check() error {
	_, err := osexec.LookPath(a.config.Command[0])
	return err
}
