package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"turnstile/internal/backoff"
	"turnstile/internal/process/command"
	"turnstile/internal/version"
	"turnstile/pkg/agent"
)

// server is one server of a session.
type server struct {
	start
	config Config
	key    string // the session's
	log    *slog.Logger

	lease   agent.Lease
	session *sdk.ClientSession // nil: it is not connected
	program *program           // nil: it is reached by HTTP
	http    *http.Transport
	gone    atomic.Bool // a server of HTTP has forgotten the connection

	slow  int       // starts in a row that took too long
	later time.Time // no turn waits for it before
}

// initial is the version that the first request names: that of the newest servers which still know the request. All
// servers reply to it, even those that ignore a method that they do not know.
const initial = "2025-11-25"

// maxTools is how many tools one server may have.
const maxTools = 1000

// pauses are the pauses after starts that took too long: else each turn would wait for a server that is dead.
var pauses = backoff.Backoff{First: time.Minute, Longest: 10 * time.Minute}

// begin returns the tools of a server that runs, or of one that it starts.
func (s *server) begin(ctx context.Context, lease agent.Lease) (tools []*sdk.Tool, err error) {
	s.lease = lease
	if s.session != nil {
		awake := s.program.wake(lease)
		if awake {
			if tools, err := s.tools(ctx); err == nil || ctx.Err() != nil {
				return tools, err
			}
		}
		s.end(false)
	}
	if pause := time.Until(s.later); pause > 0 {
		return nil, fmt.Errorf("%w: it is started again in %s", errSlowStart, pause.Round(time.Second))
	}
	if err = s.connect(ctx); err == nil {
		if tools, err = s.tools(ctx); err != nil {
			s.end(false)
		}
	}
	switch {
	case errors.Is(err, errSlowStart):
		s.slow++
		s.later = time.Now().Add(pauses.After(s.slow))
	case err == nil || ctx.Err() == nil: // an interrupt says nothing of the server
		s.prompt()
	}
	return tools, err
}

// prompt ends the pauses: the server has not kept anyone waiting.
func (s *server) prompt() { s.slow, s.later = 0, time.Time{} }

// tools asks for all tools.
func (s *server) tools(ctx context.Context) (tools []*sdk.Tool, err error) {
	if can := s.session.InitializeResult().Capabilities; can == nil || can.Tools == nil {
		return nil, nil
	}
	var list *sdk.ListToolsResult
	session := s.session // a call that was given up may still have it
	cursor := ""
	for range maxTools { // pages may be empty
		if err := s.do(ctx, func(ctx context.Context) (err error) {
			list, err = session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
			return err
		}); err != nil {
			return nil, s.said(ctx, err)
		}
		if tools = append(tools, list.Tools...); len(tools) > maxTools {
			break
		}
		if cursor = list.NextCursor; cursor == "" {
			return tools, nil
		}
	}
	return nil, fmt.Errorf("it has more than %d tools, or pages of them", maxTools)
}

// do calls f, which may block in a write to a program that does not read. Then the program is ended.
func (s *server) do(ctx context.Context, f func(ctx context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- command.Contained(s.log, func() error { return f(ctx) }) }()
	select {
	case err := <-done:
		if err == nil || ctx.Err() == nil {
			return err
		}
	case <-ctx.Done():
	}
	cause := context.Cause(ctx)
	slow := errors.Is(cause, errSlowCall)
	if slow && s.alive() {
		return ctx.Err() // the call was slow, and is cancelled
	}
	s.end(slow || errors.Is(cause, errSlowStart) || errors.Is(cause, agent.ErrLeaseLost))
	return ctx.Err()
}

// pingTime is how long a server may take to show that it is alive.
const pingTime = time.Second

func (s *server) alive() bool {
	ctx, cancel := context.WithTimeout(context.Background(), pingTime)
	defer cancel()
	done := make(chan error, 1)
	go func(session *sdk.ClientSession) { done <- session.Ping(ctx, nil) }(s.session)
	select {
	case err := <-done:
		return err == nil
	case <-ctx.Done():
		return false
	}
}

// refused reports whether an error is the server's response. The SDK says of a request that was not sent that its
// transport refused it.
func refused(err error) bool {
	var response *jsonrpc.Error
	var unsent *url.Error
	return errors.As(err, &response) && !errors.As(err, &unsent)
}

// connect starts the server and agrees on a version.
func (s *server) connect(ctx context.Context) error {
	err := s.connectAs(ctx, initial)
	if refused(err) { // it is newer
		err = s.connectAs(ctx, "")
	}
	return s.said(ctx, err)
}

func (s *server) connectAs(ctx context.Context, protocol string) error {
	s.gone.Store(false)
	transport, err := s.transport()
	if err != nil {
		return err
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "turnstile", Version: version.String()}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{}, Logger: slog.New(slog.DiscardHandler),
	})
	stop := context.AfterFunc(ctx, s.program.kill)
	defer stop()
	session, err := client.Connect(ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		err = s.program.died(err)
		s.end(true)
		return err
	}
	s.session = session
	return nil
}

// transport is a new way to the server. It starts the program.
func (s *server) transport() (sdk.Transport, error) {
	if s.Command != "" {
		spec, err := s.isolator.Apply(command.Spec{
			Argv: append([]string{s.Command}, s.Args...), Env: s.env.ForSession(os.Environ(), s.key), Lease: s.lease, Logger: s.log,
			Socket: true, // it lives between turns, and could take a stray line for its user's
		}, s.key)
		if err == nil {
			s.program, err = startProgram(spec)
		}
		if err != nil {
			return nil, err
		}
		return &sdk.IOTransport{Reader: s.program, Writer: s.program.command.Stdin, MaxLineLength: command.MaxLine}, nil
	}
	// Without the stream for requests of the server: no lease covers the time between two turns.
	return &sdk.StreamableClientTransport{Endpoint: s.URL, HTTPClient: s.client(), DisableStandaloneSSE: true, MaxEventSize: command.MaxLine}, nil
}

// use calls a tool.
func (s *server) use(ctx context.Context, name string, c Call) (string, error) {
	limited, cancel := context.WithTimeoutCause(ctx, c.Limit, errSlowCall)
	defer cancel()
	if s.session == nil {
		if err := s.connect(limited); err != nil {
			return "", fmt.Errorf("the server could not be reached: %w", err)
		}
		s.prompt()
	}
	params := &sdk.CallToolParams{Name: name, Arguments: json.RawMessage(c.Arguments), Meta: sdk.Meta{"turnstile/stepKey": c.Key}}
	if c.Trace != "" {
		params.Meta["traceparent"] = c.Trace
	}
	s.program.allow()
	var result *sdk.CallToolResult
	session := s.session
	err := s.do(limited, func(ctx context.Context) (err error) {
		result, err = session.CallTool(ctx, params)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case limited.Err() != nil:
		return "", fmt.Errorf("given up, for it took longer than %s", c.Limit)
	case err != nil && (!refused(err) || s.gone.Load()):
		err = s.said(ctx, s.program.died(err))
		s.end(true) // the next call starts it again
		return "", fmt.Errorf("the server failed: %w", err)
	case err != nil:
		return "", s.said(ctx, err)
	}
	text := textOf(result)
	if result.IsError {
		return "", errors.New(cmp.Or(s.secrets.Replace(text), "the tool failed"))
	}
	return text, nil
}

func (s *server) rest() {
	if s.session != nil {
		s.program.rest()
	}
}

// end ends the connection and the program.
func (s *server) end(atOnce bool) {
	grace := s.config.Grace
	if atOnce {
		grace = 0
	}
	s.program.end(grace)
	if s.session != nil {
		_ = s.session.Close() // what it says is over
	}
	if s.http != nil {
		s.http.CloseIdleConnections()
	}
	s.session, s.program, s.http = nil, nil, nil
}

// said is an error without secrets.
func (s *server) said(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return errors.New(s.secrets.Replace(err.Error()))
}
