package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"turnstile/internal/mcp"
	"turnstile/internal/process/command"
	"turnstile/internal/process/guardian"
	"turnstile/pkg/agent"
)

// Permissions is how an agent's requests for permission are decided.
type Permissions string

// The policies.
const (
	Allow   Permissions = "allow" // allow, once each time
	Deny    Permissions = "deny"  // deny
	AskUser Permissions = "ask"   // the user decides; deny if no user can be asked
)

// Config has the agent's command, and the requests that it may make.
type Config struct {
	// Command is the agent and its arguments. No shell is involved. A program without a slash is
	// looked up in PATH at every start.
	Command []string

	// Commands are the names, without the slash, of those commands of the agent that a user's message may be. Any
	// other text is words for the model.
	Commands []string

	// Model and Mode are those of the agent's sessions, by the agent's own IDs. An agent that does not let its client
	// choose them fails. Empty: the agent's own settings decide.
	Model string
	Mode  string

	// Env names further environment variables of this program that the agent gets. A name that ends
	// in * means all names with that prefix. REDIS_URL and names that begin with TURNSTILE_ cannot
	// be passed on. NAME=VALUE sets a variable, -NAME keeps
	// one from being passed on.
	Env []string

	// Grace is how long an agent may take to respond to session/cancel, or to end when it is
	// closed, before it is killed. Defaults to 5 s. Negative: it is killed at once.
	Grace time.Duration

	// Permissions defaults to AskUser.
	Permissions Permissions

	// Workspace has a directory for each session, made when it is needed.
	// Empty: all sessions work in this program's directory.
	Workspace string

	// WorkspaceGroup may write to directories of that group on the way to the workspace:
	// Kubernetes' fsGroup. Without it, only the owner may write to them, who must be root or this
	// process's user, or they must have the sticky bit. See docs/operations.md.
	WorkspaceGroup *int

	// Files: the agent may use Turnstile to read and write files in the session's directory. Needs
	// Workspace.
	Files bool

	// Terminal: the agent may use Turnstile to run commands in the session's directory. Needs
	// Workspace.
	Terminal bool

	// Isolation keeps the agent, and the commands that it runs through Turnstile, from other sessions
	// and the worker. Its Workspace is this one's.
	Isolation agent.Isolation

	// MCPFile names a file of MCP servers, which the agent is given with each session: see docs/agents/mcp.md. It is read
	// by New.
	MCPFile string

	// Start is how long an agent may take to start, and then for each step until it has a session
	// open. Defaults to 1 min.
	Start time.Duration

	// Logger logs the agent's stderr, and lines that are not of the protocol, at debug. Defaults to
	// slog.Default().
	Logger *slog.Logger
}

// Agent runs Config.Command, once for each session.
type Agent struct {
	config    Config
	env       command.Env
	isolator  command.Isolator
	servers   *mcp.File // nil: there are none
	signature string
}

var (
	_ agent.Agent  = (*Agent)(nil)
	_ agent.Warmer = (*Agent)(nil)
)

// New checks the configuration. It fails if exec.Init was not called.
func New(config Config) (*Agent, error) {
	if !guardian.Ready() {
		return nil, errors.New("acp agent: exec.Init was not called: call it first thing in main (in tests: in TestMain)")
	}
	if len(config.Command) == 0 || strings.TrimSpace(config.Command[0]) == "" {
		return nil, errors.New("acp agent: the command is empty")
	}
	for _, word := range config.Command {
		if strings.IndexByte(word, 0) >= 0 {
			return nil, errors.New("acp agent: the command contains a zero byte")
		}
	}
	switch config.Permissions {
	case "":
		config.Permissions = AskUser
	case Allow, Deny, AskUser:
	default:
		return nil, fmt.Errorf("acp agent: unknown permissions %q: use %s, %s or %s", config.Permissions, Allow, Deny, AskUser)
	}
	if config.Workspace == "" && (config.Files || config.Terminal) {
		return nil, errors.New("acp agent: files and terminals need a workspace, which confines them")
	}
	if config.Workspace != "" {
		abs, err := filepath.Abs(config.Workspace)
		if err != nil {
			return nil, fmt.Errorf("acp agent: the workspace: %w", err)
		}
		config.Workspace = abs
	}
	switch {
	case config.Grace == 0:
		config.Grace = 5 * time.Second
	case config.Grace < 0:
		config.Grace = 0
	}
	switch {
	case config.Start == 0:
		config.Start = time.Minute
	case config.Start < 0:
		return nil, errors.New("acp agent: the time to start is negative")
	}
	env, err := command.NewEnv(config.Env)
	if err != nil {
		return nil, fmt.Errorf("acp agent: %w", err)
	}
	var servers *mcp.File
	if config.MCPFile != "" {
		if servers, err = mcp.Load(config.MCPFile); err != nil {
			return nil, fmt.Errorf("acp agent: MCP servers: %w", err)
		}
	}
	config.Isolation.Workspace, config.Isolation.WorkspaceGroup = config.Workspace, config.WorkspaceGroup
	isolator, err := command.NewIsolator(config.Isolation, slices.Concat(config.Command, servers.Words())...)
	if err != nil {
		return nil, fmt.Errorf("acp agent: %w", err)
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	return &Agent{config, env, isolator, servers, signature(config)}, nil
}

// signature has all settings of a process.
func signature(c Config) string {
	data, err := json.Marshal([]any{"acp", c.Command, c.Commands, c.Model, c.Mode, c.Env, c.Workspace, c.Permissions, c.Files, c.Terminal, c.Grace, c.Isolation, c.MCPFile})
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	return string(data)
}

// Signature changes with everything that needs another process.
func (a *Agent) Signature() string { return a.signature }

// Run starts a process for one turn. A worker uses Warm.
func (a *Agent) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	return agent.RunOnce(ctx, a, turn)
}

// Check reports whether the agent's program can be found now. A program that is missing when a turn
// starts fails that turn retryably. A worker checks at its start, when an operator sees the error.
func (a *Agent) Check() error {
	_, err := osexec.LookPath(a.config.Command[0])
	return err
}
