package cli

import (
	"fmt"
	"log/slog"
	osexec "os/exec"
	"slices"
	"strings"
	"time"

	"turnstile/internal/mcp"
	"turnstile/internal/process/command"
	"turnstile/internal/process/guardian"
	"turnstile/pkg/agent"
)

// Kind names an agent.
type Kind string

// The agents.
const (
	Claude Kind = "claude" // Claude Code
	Codex  Kind = "codex"  // Codex CLI
	Gemini Kind = "gemini" // Gemini CLI
)

// defaultLinger is how long a program may be silent after it has reported the turn's end, with a reply or an error,
// before it is stopped.
const defaultLinger = 10 * time.Second

// Config has the program and its settings.
type Config struct {
	// Command is the program and options for it. Defaults to the program with the kind's name. The
	// adapter adds its own options at the end. No shell is involved. A program without a slash is
	// looked up in PATH at every turn.
	Command []string

	// Model is the model to use. Empty: the program's own default.
	Model string

	// Ask has the tools of Claude Code for which the user is asked; a name may end in *. Allow them in no
	// other way. Such a turn needs no worker while it waits, see agent.Question.Key. Only for Claude.
	Ask []string

	// Commands are the names, without the slash, of those commands of the program that a user's message may be. Any
	// other text is words for the model: neither a command nor a file to read.
	Commands []string

	// Env names further environment variables of this program that the agent gets, in addition to
	// those with the kind's prefixes: ANTHROPIC_ and CLAUDE_, OPENAI_ and CODEX_, GEMINI_ and
	// GOOGLE_. A name that ends in * means all names with that prefix. REDIS_URL and names that
	// begin with TURNSTILE_ cannot be passed on. NAME=VALUE sets a variable, -NAME keeps
	// one from being passed on.
	Env []string

	// Workspace has a directory for each session, made when it is needed, for its owner only. Empty: all sessions work in this program's directory.
	Workspace string

	// WorkspaceGroup may write to directories of that group on the way to the workspace:
	// Kubernetes' fsGroup. Without it, only the owner may write to them, who must be root or this
	// process's user, or they must have the sticky bit. See docs/operations.md.
	WorkspaceGroup *int

	// Isolation keeps the program from other sessions and the worker. Its Workspace is this one's.
	Isolation agent.Isolation

	// MCPFile names a file of MCP servers, which the program gets in addition to its own: see docs/agents/mcp.md. It is
	// read by New.
	MCPFile string

	// Grace is how long a program may run after SIGINT before it is killed. Defaults to 5 s.
	// Negative: it is killed at once.
	Grace time.Duration

	// Logger logs each line of the program's stderr, and of its stdout if it is not JSON, at debug.
	// Defaults to slog.Default().
	Logger *slog.Logger
}

// program describes one of the programs.
type program struct {
	env []string // the names of its variables

	// argv is the command for one turn. resume is the ID of the session to resume, or empty.
	argv func(command []string, model, resume string) []string

	// servers gives the program the servers of a file, by options after the command's own and by variables.
	servers func(f *mcp.File) (options, env []string, err error)

	// trust are variables for a program that works in a directory made by the adapter.
	trust []string

	decoder func(*stream) decoder

	// often is the type of the lines that come once for each of the model's tokens. The decoder
	// decodes such a line in one step. Empty: there are none.
	often string

	// forgotten are parts of its errors when it does not know the session to resume.
	forgotten []string

	exits map[int]string // the meanings of its exit codes

	mentions bool // see command.Users

	// record is the program's file about a session, which only grows, see openBeneath. nil: an interrupted turn
	// begins again, see goOn. read takes a line of it, and reports whether it is a prompt of the user. sameIDs: it
	// has the tools by their CallIDs.
	record  func(spec command.Spec, session string) (root, path string)
	read    func(line []byte, to *recorded) (prompt bool)
	sameIDs bool
}

// decoder emits the events of a program's lines. An error says that the line has an unknown shape.
type decoder interface {
	line(of string, data []byte) error
}

var programs = map[Kind]program{Claude: claude, Codex: codex, Gemini: gemini}

// Agent runs one of the programs for every turn.
type Agent struct {
	kind     Kind
	program  program
	config   Config
	env      command.Env
	isolator command.Isolator
	linger   time.Duration
	patience time.Duration // with a program that has closed its stdout
}

// New checks the configuration. It fails if exec.Init was not called.
func New(kind Kind, config Config) (*Agent, error) {
	p, ok := programs[kind]
	if !ok {
		return nil, fmt.Errorf("agent %q: there is no such preset: use %s, %s or %s", kind, Claude, Codex, Gemini)
	}
	if !guardian.Ready() {
		return nil, fmt.Errorf("agent %s: exec.Init was not called: call it first thing in main (in tests: in TestMain)", kind)
	}
	if len(config.Command) == 0 {
		config.Command = []string{string(kind)}
	}
	if strings.TrimSpace(config.Command[0]) == "" {
		return nil, fmt.Errorf("agent %s: the command is empty", kind)
	}
	for _, word := range append([]string{config.Model}, config.Command...) {
		if strings.IndexByte(word, 0) >= 0 {
			return nil, fmt.Errorf("agent %s: the command or the model contains a zero byte", kind)
		}
	}
	if err := validAsk(kind, config); err != nil {
		return nil, err
	}
	var servers *mcp.File
	var given []string
	if config.MCPFile != "" {
		var err error
		if servers, err = mcp.Load(config.MCPFile); err == nil {
			var options []string
			options, given, err = p.servers(servers)
			config.Command = slices.Concat(config.Command, options)
		}
		if err != nil {
			return nil, fmt.Errorf("agent %s: MCP servers: %w", kind, err)
		}
	}
	env, err := command.NewEnv(slices.Concat(p.env, config.Env, given))
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", kind, err)
	}
	config.Isolation.Workspace, config.Isolation.WorkspaceGroup = config.Workspace, config.WorkspaceGroup
	isolator, err := command.NewIsolator(config.Isolation, slices.Concat(config.Command, servers.Words())...)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", kind, err)
	}
	switch {
	case config.Grace == 0:
		config.Grace = 5 * time.Second
	case config.Grace < 0:
		config.Grace = 0
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if kind == Gemini && servers != nil {
		if path := notRoots(servers.Path); path != "" {
			config.Logger.Warn("Gemini CLI ignores TURNSTILE_MCP_FILE unless only root may write to it and to all directories above it", "path", path)
		}
	}
	return &Agent{
		kind: kind, program: p, config: config, env: env, isolator: isolator, linger: defaultLinger, patience: max(config.Grace, command.ClosedPatience),
	}, nil
}

func (a *Agent) users() command.Users {
	return command.Users{Commands: a.config.Commands, Mentions: a.program.mentions}
}

// Traits implements agent.Describer: a turn that has asked the user goes on in the program's session.
func (a *Agent) Traits() agent.Traits { return agent.Traits{Continues: len(a.config.Ask) > 0} }

// Check reports whether the program can be found now. A program that is missing when a turn starts
// fails that turn retryably. A worker checks at its start, when an operator sees the error.
func (a *Agent) Check() error {
	if _, err := osexec.LookPath(a.config.Command[0]); err != nil {
		return fmt.Errorf("agent %s: %w: install it, or name it in the agent's command", a.kind, err)
	}
	return nil
}
