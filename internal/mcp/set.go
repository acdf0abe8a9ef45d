package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
)

// Config is how an agent runs its servers.
type Config struct {
	Env       []string // as exec.Config has it
	Isolation agent.Isolation
	Grace     time.Duration // after SIGINT; 0: servers are killed at once
	Start     time.Duration // how long a server may take until its tools are known
	Logger    *slog.Logger
}

// Servers are an agent's servers.
type Servers struct {
	file   *File
	config Config
	starts []start
}

// start is what starts a server.
type start struct {
	Server
	env      command.Env
	isolator command.Isolator
	secrets  *strings.Replacer
}

// New prepares the servers of a file. It starts nothing.
func New(file *File, config Config) (*Servers, error) {
	all := &Servers{file: file, config: config}
	for _, s := range file.Servers {
		one := start{Server: s}
		var err error
		if s.SSE {
			return nil, fmt.Errorf("server %s: the agent model does not know the type sse, which streamable HTTP has replaced", s.Name)
		}
		env := slices.Clone(config.Env)
		for _, name := range slices.Sorted(maps.Keys(s.Env)) {
			env = append(env, name+"="+s.Env[name])
		}
		if one.env, err = command.NewEnv(env); err == nil && s.Command != "" {
			one.isolator, err = command.NewIsolator(config.Isolation, append([]string{s.Command}, s.Args...)...)
		}
		if err != nil {
			return nil, fmt.Errorf("server %s: %w", s.Name, err)
		}
		one.secrets = hiding(s)
		all.starts = append(all.starts, one)
	}
	return all, nil
}

// Set has the servers of one session. Its methods are not called concurrently.
type Set struct {
	all     *Servers
	servers []*server
}

// Tool is one tool of a server.
type Tool struct {
	Name        string // mcp__SERVER__TOOL
	Description string
	Schema      map[string]any // of its arguments, an object
	Safe        bool           // it has no effects
	Again       bool           // the same call twice is as one

	Ask       bool
	Approvers []string

	// Call calls it. The error is for the model. It returns soon after the end of ctx.
	Call func(ctx context.Context, c Call) (text string, err error)
}

// Call is one call of a tool.
type Call struct {
	Arguments []byte // a JSON object
	Key       string // the step's, for the receiver of its effects
	Trace     string // the traceparent; may be empty
	Limit     time.Duration
}

// Open makes the set of a session. It starts nothing.
func (all *Servers) Open(session string) *Set {
	s := &Set{all: all}
	for _, one := range all.starts {
		s.servers = append(s.servers, &server{start: one, config: all.config, key: session, log: all.config.Logger.With("session", session, "server", one.Name)})
	}
	return s
}

// Begin begins a turn: it starts the servers that do not run, and returns all tools, those of a server in the order of
// their names. missing are the servers without tools in this turn, with the reasons.
func (s *Set) Begin(ctx context.Context, turn *agent.Turn) (tools []Tool, missing map[string]error) {
	missing = map[string]error{}
	lists, failed := make([][]*sdk.Tool, len(s.servers)), make([]error, len(s.servers))
	var all sync.WaitGroup
	for i, one := range s.servers {
		all.Go(func() {
			ctx, cancel := context.WithTimeoutCause(ctx, s.all.config.Start, errSlowStart)
			defer cancel()
			failed[i] = command.Contained(one.log, func() (err error) {
				lists[i], err = one.begin(ctx, turn.Host.Lease)
				return err
			})
		})
	}
	all.Wait()
	taken := map[string]bool{}
	for i, one := range s.servers {
		if failed[i] != nil {
			missing[one.Name] = failed[i]
			continue
		}
		slices.SortStableFunc(lists[i], func(a, b *sdk.Tool) int { return cmp.Compare(a.Name, b.Name) })
		for _, t := range lists[i] {
			name, full := toolName(one.Name, t.Name, func(name string) bool { return taken[name] })
			if taken[name] {
				continue // the server has it twice
			}
			taken[name] = true
			tools = append(tools, one.tool(t, name, s.all.file, full))
		}
	}
	return tools, missing
}

// tool is a tool of the server, by its name for the model.
func (s *server) tool(t *sdk.Tool, name string, file *File, full string) Tool {
	schema, _ := t.InputSchema.(map[string]any)
	schema = maps.Clone(schema)
	if schema == nil {
		schema = map[string]any{}
	}
	delete(schema, "$schema") // some models' servers refuse what they do not know
	schema["type"] = "object"
	if schema["properties"] == nil {
		schema["properties"] = map[string]any{}
	}
	tool := Tool{Name: name, Description: cmp.Or(t.Description, t.Title), Schema: schema}
	if hints := t.Annotations; hints != nil {
		tool.Safe, tool.Again = hints.ReadOnlyHint, hints.ReadOnlyHint || hints.IdempotentHint
	}
	var ask Ask
	ask, tool.Ask = file.asking(name, full)
	tool.Approvers = ask.Approvers
	tool.Call = func(ctx context.Context, c Call) (string, error) { return s.use(ctx, t.Name, c) }
	return tool
}

// Rest ends a turn. The servers stay, idle and without a lease.
func (s *Set) Rest() {
	for _, one := range s.servers {
		one.rest()
	}
}

// Close ends the servers, and returns when nothing of them is left. lost: the session's lease was, so they are killed.
func (s *Set) Close(lost bool) {
	var all sync.WaitGroup
	for _, one := range s.servers {
		all.Go(func() { one.end(lost) })
	}
	all.Wait()
}

var (
	errSlowStart = errors.New("it did not start in time")
	errSlowCall  = errors.New("the call took too long")
)

// leastSecret is the length from which a text is a secret. A shorter one would hide words that are none.
const leastSecret = 4

// hiding hides a server's secrets in a text, and the words that they consist of.
func hiding(s Server) *strings.Replacer {
	var parts, hide []string
	for _, secret := range append([]string{s.URL}, s.secrets...) {
		parts = append(append(parts, secret), strings.Fields(secret)...)
	}
	slices.SortFunc(parts, func(a, b string) int { return len(b) - len(a) }) // one may begin with another
	for _, part := range parts {
		if len(part) >= leastSecret {
			hide = append(hide, part, "***")
		}
	}
	return strings.NewReplacer(hide...)
}
