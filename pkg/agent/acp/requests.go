package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	acpsdk "github.com/coder/acp-go-sdk"

	"turnstile/internal/process/command"
)

// maxRequests is how many requests of an agent are answered at a time.
const maxRequests = 64

// requests are those of the agent in a turn, each on a goroutine of its own: one that
// waits for the user holds up no other.
type requests struct {
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex
	open   map[string]context.CancelFunc // by id
	over   bool
	served sync.WaitGroup
	asking chan struct{} // holds one, while a question is put to the user
	filing chan struct{} // holds one, while a file is read or written
}

// begin prepares for requests. They outlive ctx a little: the agent is to be told first
// that the turn is cancelled.
func (r *requests) begin(ctx context.Context) {
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.open, r.asking, r.filing = map[string]context.CancelFunc{}, make(chan struct{}, 1), make(chan struct{}, 1)
}

// end cancels what is still asked, and waits until all is answered.
func (r *requests) end() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	r.cancel()
	r.served.Wait()
}

// serve runs f on a goroutine, until the turn ends or the request is withdrawn. False:
// that is not possible any more.
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

// withdraw is the agent's $/cancel_request.
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

// asked takes a request of the agent.
func (t *turn) asked(id json.RawMessage, method string, params json.RawMessage) {
	t.locked(func() { t.heard = true })
	serving := t.serve(string(id), func(ctx context.Context) {
		var result any
		var refused *acpsdk.RequestError
		err := command.Contained(t.logger, func() error {
			result, refused = t.answer(ctx, method, params)
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

// answer does what the agent asks for.
func (t *turn) answer(ctx context.Context, method string, params json.RawMessage) (any, *acpsdk.RequestError) {
	config := t.process.agent.config
	switch {
	case method == acpsdk.ClientMethodSessionRequestPermission:
		return answerTo(params, func(p permissionRequest) (any, error) { return t.permission(ctx, p), nil })
	case method == acpsdk.ClientMethodFsReadTextFile && config.Files:
		return answerTo(params, func(p acpsdk.ReadTextFileRequest) (any, error) {
			return t.file(ctx, func() (any, error) { return readFile(ctx, t.dir, p) })
		})
	case method == acpsdk.ClientMethodFsWriteTextFile && config.Files:
		return answerTo(params, func(p acpsdk.WriteTextFileRequest) (any, error) {
			return t.file(ctx, func() (any, error) { return writeFile(t.dir, p) })
		})
	case !strings.HasPrefix(method, "terminal/") || !config.Terminal:
	case method == acpsdk.ClientMethodTerminalCreate:
		return answerTo(params, func(p acpsdk.CreateTerminalRequest) (any, error) { return t.createTerminal(p) })
	default:
		return answerTo(params, func(p acpsdk.TerminalOutputRequest) (any, error) {
			return t.terminals.do(ctx, method, p.TerminalId)
		})
	}
	return nil, acpsdk.NewMethodNotFound(method)
}

// file does something with a file, one at a time: each may take tens of MiB of memory
// until the agent has its answer.
func (t *turn) file(ctx context.Context, do func() (any, error)) (any, error) {
	select {
	case t.filing <- struct{}{}:
		defer func() { <-t.filing }()
		return do()
	case <-ctx.Done():
		return nil, refuse(codeInvalid, "the turn was cancelled")
	}
}

// answerTo is what f answers to a request with these parameters. Its errors are the
// agent's to deal with.
func answerTo[P any](params json.RawMessage, f func(P) (any, error)) (any, *acpsdk.RequestError) {
	var p P
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, &acpsdk.RequestError{Code: codeInvalidParams, Message: err.Error()}
	}
	result, err := f(p)
	if err != nil {
		return nil, requestError(err)
	}
	return result, nil
}

// refusal is an error with a code of its own for the agent.
type refusal struct {
	code int
	why  string
}

func (r refusal) Error() string { return r.why }

func refuse(code int, format string, args ...any) error {
	return refusal{code, fmt.Sprintf(format, args...)}
}
