package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	acpsdk "github.com/coder/acp-go-sdk"

	"turnstile/internal/process/command"
	"turnstile/internal/text/boundedjson"
)

// maxRequests is how many requests of an agent are served at a time.
const maxRequests = 64

// requests are the agent's requests in a turn. Each has its own goroutine: one that waits for the
// user blocks no other.
type requests struct {
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex
	open   map[string]context.CancelFunc // by ID
	over   bool
	served sync.WaitGroup
	asking chan struct{} // has one element while a question is put to the user
	filing chan struct{} // has one element while a file is read or written
}

// begin prepares for requests. They outlive ctx a little, because the agent must first learn that
// the turn is cancelled.
func (r *requests) begin(ctx context.Context) {
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.open, r.asking, r.filing = map[string]context.CancelFunc{}, make(chan struct{}, 1), make(chan struct{}, 1)
}

// end cancels the open requests, and waits until all have a response.
func (r *requests) end() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	r.cancel()
	r.served.Wait()
}

// serve runs f on a goroutine until the turn ends or the request is withdrawn. It returns false if
// that is too late.
func (r *requests) serve(id string, f func(ctx context.Context)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || len(r.open) >= maxRequests || r.open[id] != nil {
		return false
	}
	ctx, cancel := context.WithCancel(r.ctx)
	r.open[id] = cancel
	r.served.Go(func() {
		f(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, id)
		cancel()
	})
	return true
}

// withdraw handles the agent's $/cancel_request.
func (r *requests) withdraw(params json.RawMessage) {
	var p struct {
		ID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel := r.open[string(p.ID)]; cancel != nil {
		cancel()
	}
}

// requested takes a request of the agent.
func (t *turn) requested(id json.RawMessage, method string, params json.RawMessage) {
	t.locked(func() { t.anyEvent = true })
	serving := t.serve(string(id), func(ctx context.Context) {
		var result any
		var refused *acpsdk.RequestError
		err := command.Contained(t.logger, func() error {
			result, refused = t.carryOut(ctx, method, params)
			return nil
		})
		if err != nil {
			t.fail(err)
			return
		}
		t.reply(id, result, refused)
	})
	if !serving {
		t.turnDown(id, method, "the turn is over, or asks for too much at once, or twice with one id")
	}
}

// carryOut carries out a request.
func (t *turn) carryOut(ctx context.Context, method string, params json.RawMessage) (any, *acpsdk.RequestError) {
	switch {
	case method == acpsdk.ClientMethodSessionRequestPermission:
		return responseTo(params, func(p permissionRequest) (any, error) { return t.permission(ctx, p), nil })
	case method == acpsdk.ClientMethodElicitationCreate:
		return responseTo(params, func(e elicitation) (any, error) { return t.elicit(ctx, e), nil })
	case method == acpsdk.ClientMethodFsReadTextFile && t.config.Files:
		return responseTo(params, func(p acpsdk.ReadTextFileRequest) (any, error) {
			return t.file(ctx, func() (any, error) { return readFile(ctx, t.dir, p) })
		})
	case method == acpsdk.ClientMethodFsWriteTextFile && t.config.Files:
		return responseTo(params, func(p acpsdk.WriteTextFileRequest) (any, error) {
			return t.file(ctx, func() (any, error) { return writeFile(t.dir, p) })
		})
	case !strings.HasPrefix(method, "terminal/") || !t.config.Terminal:
	case method == acpsdk.ClientMethodTerminalCreate:
		return responseTo(params, func(p acpsdk.CreateTerminalRequest) (any, error) { return t.createTerminal(p) })
	default:
		return responseTo(params, func(p acpsdk.TerminalOutputRequest) (any, error) {
			return t.terminals.do(ctx, method, p.TerminalId)
		})
	}
	return nil, acpsdk.NewMethodNotFound(method)
}

// file reads or writes a file, one at a time: each may take tens of MiB of memory until the agent
// has its response.
func (t *turn) file(ctx context.Context, do func() (any, error)) (any, error) {
	select {
	case t.filing <- struct{}{}:
		defer func() { <-t.filing }()
		return do()
	case <-ctx.Done():
		return nil, refuse(codeInvalid, "the turn was cancelled")
	}
}

// responseTo is f's response to a request with these parameters. Its errors go to the agent.
func responseTo[P any](params json.RawMessage, f func(P) (any, error)) (any, *acpsdk.RequestError) {
	var p P
	if err := boundedjson.Unmarshal(params, &p); err != nil {
		return nil, &acpsdk.RequestError{Code: codeInvalidParams, Message: err.Error()}
	}
	result, err := f(p)
	if err != nil {
		return nil, requestError(err)
	}
	return result, nil
}

// refusal is an error with a code for the agent.
type refusal struct {
	code int
	why  string
}

func (r refusal) Error() string { return r.why }

func refuse(code int, format string, args ...any) error {
	return refusal{code, fmt.Sprintf(format, args...)}
}
