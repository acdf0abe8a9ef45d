package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	acpsdk "github.com/coder/acp-go-sdk"

	"turnstile/internal/mcp"
	"turnstile/internal/process/command"
	"turnstile/internal/process/paced"
	"turnstile/internal/text/boundedjson"
	"turnstile/internal/version"
	"turnstile/pkg/agent"
)

// process is an agent's process and the connection to it.
type process struct {
	*command.Command
	*conn
	config   Config
	env      command.Env
	logger   *slog.Logger
	isolator command.Isolator
	servers  *mcp.File // nil: there are none
	reader   sync.WaitGroup

	can   abilities
	name  string   // the agent's own name; may be empty
	login []string // how to log in, in the agent's own words
}

// abilities are the capabilities that an agent announces. Any value but null and false announces
// one.
type abilities struct {
	load, resume, close bool
	images              bool // in a prompt
	http, sse           bool // MCP servers
}

type initialized struct {
	ProtocolVersion   json.Number `json:"protocolVersion"`
	AgentCapabilities struct {
		LoadSession         json.RawMessage            `json:"loadSession"`
		SessionCapabilities map[string]json.RawMessage `json:"sessionCapabilities"`
		PromptCapabilities  struct {
			Image json.RawMessage `json:"image"`
		} `json:"promptCapabilities"`
		McpCapabilities struct {
			HTTP json.RawMessage `json:"http"`
			SSE  json.RawMessage `json:"sse"`
		} `json:"mcpCapabilities"`
	} `json:"agentCapabilities"`
	AgentInfo struct {
		Name string `json:"name"`
	} `json:"agentInfo"`
	AuthMethods []struct {
		Name string `json:"name"`
	} `json:"authMethods"`
}

func yes(value json.RawMessage) bool {
	return value != nil && string(value) != "null" && string(value) != "false"
}

// start starts the agent in dir. Its requests and notifications go to peer.
func (a *Agent) start(turn *agent.Turn, dir string, peer peer, logger *slog.Logger) (*process, error) {
	spec, err := a.isolator.Apply(command.Spec{
		Argv: a.config.Command, Dir: dir, Env: a.env.ForSession(os.Environ(), turn.Session), Lease: turn.Host.Lease, Logger: logger,
		Socket: true, // it lives between turns, and could take a stray line for its user's
	}, turn.Session)
	if err != nil {
		return nil, err
	}
	c, err := command.Start(spec)
	if err != nil {
		return nil, err
	}
	p := &process{Command: c, conn: newConn(c.Stdin, peer, logger), config: a.config, env: a.env, isolator: a.isolator, servers: a.servers, logger: logger}
	out := paced.New(c.Stdout, c.Done())
	p.hurry = out.Hurry
	p.reader.Go(func() { p.read(out) })
	return p, nil
}

// gone waits for the end of the process and reads all its output. The error is how it ended.
func (p *process) gone() error {
	s := p.Wait()
	p.reader.Wait()
	p.end() // responses from now on are not sent, and start no writer
	p.writer.Wait()
	p.CloseOutput()
	if err := command.Unfit(s); err != nil {
		return err
	}
	if err := p.Failure(s); err != nil {
		return err
	}
	return p.WithStderr("exit status 0")
}

// ended reports whether the agent cannot respond any more.
func (p *process) ended() bool {
	select {
	case <-p.closed:
	case <-p.Done():
	default:
		return false
	}
	return true
}

// exitTime is how long a process may take to end after its output has.
const exitTime = time.Second

// died is why the agent ended, after its process or its output has.
func (p *process) died(ctx context.Context) error {
	select {
	case <-p.closed:
		if p.cause == nil {
			// It is mostly about to exit, and its exit code says more than a signal.
			select {
			case <-p.Done():
			case <-ctx.Done():
			case <-time.After(exitTime):
			}
		}
	case <-p.Done():
	}
	status := p.quit(ctx)
	if p.cause != nil {
		return p.LastWords(fmt.Errorf("it was ended, for %w", p.cause))
	}
	return status
}

// quit ends the process within the grace, or at once when the session is lost, because its next
// owner does not wait. The error is how it ended.
func (p *process) quit(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { p.End(ctx, p.config.Grace) })()
	p.Interrupt(p.config.Grace)
	return p.gone()
}

var errNoResponse = errors.New("no response")

// call sends a request and waits for its response, no longer than Config.Start.
func (p *process) call(ctx context.Context, method string, params, result any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.config.Start, errNoResponse)
	defer cancel()
	return p.callFor(ctx, method, params, result)
}

// callFor is call for as long as ctx lasts. The error is a *acpsdk.RequestError if that was the
// agent's response.
func (p *process) callFor(ctx context.Context, method string, params, result any) error {
	responses := make(chan response, 1)
	p.request(method, params, func(a response) { responses <- a })
	var got response
	select {
	case got = <-responses:
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), errNoResponse) {
			return agent.Retryable(fmt.Errorf("the agent did not respond to %s within %s", method, p.config.Start))
		}
		return command.Interrupted(ctx)
	case <-p.closed:
		return agent.Retryable(fmt.Errorf("the agent ended before it responded to %s: %w", method, p.died(ctx)))
	case <-p.Done():
		return agent.Retryable(fmt.Errorf("the agent ended before it responded to %s: %w", method, p.died(ctx)))
	}
	if got.err != nil {
		return got.err
	}
	if raw, ok := result.(*json.RawMessage); ok { // of any form
		*raw = got.result
		return nil
	}
	if result != nil {
		if err := boundedjson.Unmarshal(got.result, result); err != nil {
			return fmt.Errorf("the agent's response to %s is invalid: %w", method, err)
		}
	}
	return nil
}

// initialize agrees on the protocol.
func (p *process) initialize(ctx context.Context) error {
	var self initialized
	can := acpsdk.ClientCapabilities{
		Fs:       acpsdk.FileSystemCapabilities{ReadTextFile: p.config.Files, WriteTextFile: p.config.Files},
		Terminal: p.config.Terminal,
	}
	if p.config.Permissions == AskUser { // not forms: yes and no do not fill in most of them
		can.Elicitation = &acpsdk.ElicitationCapabilities{Url: &acpsdk.ElicitationUrlCapabilities{}}
	}
	err := p.call(ctx, acpsdk.AgentMethodInitialize, acpsdk.InitializeRequest{
		ProtocolVersion:    acpsdk.ProtocolVersionNumber,
		ClientInfo:         &acpsdk.Implementation{Name: "turnstile", Version: version.String()},
		ClientCapabilities: can,
	}, &self)
	if err != nil {
		return p.refused(acpsdk.AgentMethodInitialize, err)
	}
	if v := self.ProtocolVersion.String(); v != fmt.Sprint(acpsdk.ProtocolVersionNumber) {
		return fmt.Errorf("the agent speaks version %q of the Agent Client Protocol, not %d: use a version of it that does", v, acpsdk.ProtocolVersionNumber)
	}
	sessions := self.AgentCapabilities.SessionCapabilities
	p.can = abilities{
		load: yes(self.AgentCapabilities.LoadSession), resume: yes(sessions["resume"]), close: yes(sessions["close"]),
		images: yes(self.AgentCapabilities.PromptCapabilities.Image),
		http:   yes(self.AgentCapabilities.McpCapabilities.HTTP), sse: yes(self.AgentCapabilities.McpCapabilities.SSE),
	}
	p.name = self.AgentInfo.Name
	for _, m := range self.AuthMethods {
		if m.Name != "" {
			p.login = append(p.login, m.Name)
		}
	}
	return nil
}

// refused is the error of a call that must succeed before the first turn.
func (p *process) refused(method string, err error) error {
	var refusal *acpsdk.RequestError
	switch {
	case !errors.As(err, &refusal):
		return err
	case refusal.Code == codeAuthRequired:
		how := ""
		if len(p.login) > 0 {
			how = " (" + strings.Join(p.login, ", ") + ")"
		}
		return fmt.Errorf("the agent is not logged in: log it in first%s, as the user that the worker runs as, with the agent's own program", how)
	}
	return agent.Retryable(fmt.Errorf("the agent could not start: %s: %w", method, errorOf(refusal)))
}

// Error codes of JSON-RPC and of the protocol.
const (
	codeAuthRequired  = -32000
	codeNotFound      = -32002
	codeInvalid       = -32600
	codeNoMethod      = -32601
	codeInvalidParams = -32602
	codeInternal      = -32603
)

// errorOf is an agent's error as text. Some agents explain it only in the details.
func errorOf(err *acpsdk.RequestError) error {
	text := err.Message
	var details string
	switch data := err.Data.(type) {
	case string:
		details = data
	case map[string]any:
		for _, key := range []string{"details", "message", "error"} {
			if s, ok := data[key].(string); ok && details == "" {
				details = s
			}
		}
	}
	if details != "" && details != text {
		text += ": " + details
	}
	if len(text) > 2000 {
		text = strings.ToValidUTF8(text[:2000], "") + "..."
	}
	return fmt.Errorf("%s (code %d)", text, err.Code)
}

// shut ends the process within the grace: it closes its stdin, then interrupts, then kills it.
func (p *process) shut(grace time.Duration) {
	p.end()
	if grace > 0 {
		select {
		case <-p.Done():
		case <-p.closed:
		case <-time.After(min(grace/4, time.Second)):
		}
	}
	p.Interrupt(grace * 3 / 4)
	_ = p.gone() // no caller waits for the error
}
