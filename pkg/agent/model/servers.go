package model

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"turnstile/internal/mcp"
	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

const (
	// serverStart is how long a server of MCPFile may take until its tools are known: npx may install it first.
	serverStart = 30 * time.Second

	// mostTools is how many tools one request has. OpenAI refuses more.
	mostTools = 128
)

// loadServers reads MCPFile.
func (a *Agent) loadServers() error {
	if a.config.MCPFile == "" {
		return nil
	}
	file, err := mcp.Load(a.config.MCPFile)
	if err != nil {
		return err
	}
	a.servers, err = mcp.New(file, mcp.Config{
		Env: a.config.Env, Isolation: a.config.Isolation, Grace: a.config.Grace, Start: serverStart, Logger: a.config.Logger,
	})
	return err
}

// KeepServers returns the agent as an agent.Warmer: the servers of MCPFile stay for the session's next turns. Without
// MCPFile it returns the agent itself.
func (a *Agent) KeepServers() agent.Agent {
	if a.servers == nil {
		return a
	}
	return keeper{a}
}

type keeper struct{ *Agent }

// Warm implements agent.Warmer. The session's first turn starts the servers.
func (k keeper) Warm(_ context.Context, turn *agent.Turn) (agent.Warm, error) {
	return &warm{Agent: k.Agent, set: k.servers.Open(turn.Session)}, nil
}

// Signature implements agent.Warmer.
func (k keeper) Signature() string { return "model " + k.config.MCPFile }

// Traits implements agent.Describer.
func (k keeper) Traits() agent.Traits {
	t := k.Agent.Traits()
	t.Stateless = true
	return t
}

// warm is the agent with the servers of a session.
type warm struct {
	*Agent
	set  *mcp.Set
	lost bool // the lease was
}

func (w *warm) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	result, err := w.run(ctx, turn, w.set)
	w.lost = errors.Is(context.Cause(ctx), agent.ErrLeaseLost)
	if err == nil {
		w.set.Rest()
	}
	return result, err
}

// Ended implements agent.Warm: a server that has died is started again alone.
func (w *warm) Ended() bool { return false }

func (w *warm) Close() error {
	w.set.Close(w.lost)
	return nil
}

// runOnce runs a turn with servers of its own.
func (a *Agent) runOnce(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	set := a.servers.Open(turn.Session)
	defer func() { set.Close(errors.Is(context.Cause(ctx), agent.ErrLeaseLost)) }()
	return a.run(ctx, turn, set)
}

// serve adds the tools of the servers to the turn's. A server that is missing costs the turn only its tools.
func (r *run) serve(ctx context.Context, set *mcp.Set) error {
	tools, missing := set.Begin(ctx, r.turn)
	if ctx.Err() != nil {
		return command.Interrupted(ctx)
	}
	var without []string
	for name, why := range missing {
		without = append(without, name)
		r.log.Warn("a server of tools is missing in this turn", "server", name, "error", why)
	}
	r.tools = make(map[string]tool, len(r.Agent.tools)+len(tools))
	for name, t := range r.Agent.tools {
		r.tools[name] = t
	}
	left := 0
	for _, t := range tools {
		schema, err := json.Marshal(t.Schema)
		cost := messageTokens + (len(t.Name)+len(t.Description)+len(schema))/bytesPerToken
		// Half of the context is for what is said.
		if _, taken := r.tools[t.Name]; taken || err != nil || len(r.tools) >= mostTools || r.fixed+cost > r.config.ContextTokens/2 {
			left++
			continue
		}
		r.fixed += cost
		own := Tool{Name: t.Name, Description: t.Description, Parameters: schema, Ask: t.Ask, Approvers: t.Approvers, Safe: t.Safe}
		if t.Again {
			own.Unknown = unknownRetry
		}
		r.tools[t.Name] = tool{Tool: own, call: t.Call}
		r.request.tools = append(slices.Clip(r.request.tools), offer{name: t.Name, description: t.Description, parameters: t.Schema})
	}
	if len(without) > 0 {
		slices.Sort(without)
		r.turn.Emit(agent.Event{Type: session.EventNotice, Text: "The tools of " + strings.Join(without, ", ") + " are missing in this turn."})
	}
	if left > 0 {
		r.log.Warn("tools of servers were left out", "left_out", left, "most", mostTools, "context_tokens", r.config.ContextTokens)
		r.turn.Emit(agent.Event{Type: session.EventNotice, Text: fmt.Sprintf("%d tools were left out in this turn: there are too many.", left)})
	}
	return nil
}

// callServer calls the tool of a server.
func (r *run) callServer(ctx context.Context, t tool, args, key string) (output json.RawMessage, failed, err error) {
	text, failed := t.call(ctx, mcp.Call{Arguments: []byte(args), Key: key, Trace: r.turn.TraceParent, Limit: r.config.ToolTimeout})
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if failed != nil {
		text = failed.Error()
	}
	result := r.newResult()
	_, _ = result.Write([]byte(text)) // cannot fail
	if failed != nil {
		return nil, errors.New(cmp.Or(strings.TrimSpace(plain(result.json())), "the tool failed")), nil
	}
	return result.json(), nil, nil
}
