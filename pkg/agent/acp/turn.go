package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	acpsdk "github.com/coder/acp-go-sdk"

	"turnstile/internal/process/command"
	"turnstile/internal/text/halves"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// ending is how the agent ended a turn.
//
// In version 1 of the protocol it is the response to session/prompt. In the draft of version 2 that
// response only acknowledges the prompt, and an update reports the end. So the rest of this package
// does not depend on the source of an ending: the code that sees one calls turn.end, and the first
// counts.
type ending struct {
	stop  acpsdk.StopReason
	usage *acpsdk.Usage
	err   error // the agent failed
}

// turn is one turn of a session's agent.
type turn struct {
	*warm
	logger *slog.Logger
	host   agent.Host
	ended  chan ending   // has at most one
	heard  chan struct{} // has at most one: there was an update

	mu       sync.Mutex
	emit     func(agent.Event) // nil: the turn is over
	spoken   bool              // text that is not blank, or a tool
	text     int               // bytes of it
	size     int               // bytes of all that is kept
	anyEvent bool              // there was any event
	tools    tools

	words, thoughts halves.Joiner // of their pieces

	requests
	terminals terminals
}

func (w *warm) newTurn(ctx context.Context, at *agent.Turn) *turn {
	t := &turn{warm: w, host: at.Host, emit: at.Emit, ended: make(chan ending, 1), heard: make(chan struct{}, 1)}
	t.logger = w.logger.With("turn", at.ID, "fence", at.Fence)
	t.tools.emit = t.emitEvent
	t.begin(ctx)
	return t
}

// end sets the turn's ending. The first call counts.
func (t *turn) end(e ending) {
	select {
	case t.ended <- e:
	default:
	}
}

// locked calls f with t.mu held, and unlocks it after a panic, too: the code that ends the turn
// needs the lock, and would otherwise never free the slot and the agent.
func (t *turn) locked(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
}

// run prompts the agent and waits for the end.
func (t *turn) run(ctx context.Context, at *agent.Turn) error {
	t.locked(func() {
		if t.fresh {
			t.fresh = false
			t.emitEvent(agent.Event{Type: session.EventNotice, Text: command.FreshSession})
		}
		t.emitState()
	})
	prompt := acpsdk.PromptRequest{SessionId: acpsdk.SessionId(t.state.ID), Prompt: t.prompt(at)}
	if at.TraceParent != "" {
		prompt.Meta = map[string]any{"traceparent": at.TraceParent}
	}
	t.request(acpsdk.AgentMethodSessionPrompt, prompt, t.promptEnded)

	select {
	case e := <-t.ended:
		if e.err == nil {
			t.fallSilent(ctx)
		}
		return t.outcome(e)
	case <-ctx.Done():
		select {
		case e := <-t.ended: // it had finished before
			return t.outcome(e)
		default:
		}
		t.interrupt(ctx)
		return t.LastWords(command.Interrupted(ctx))
	case <-t.closed:
	case <-t.Done():
	}
	err := t.died(ctx)
	// The last message may have been the end of the turn.
	select {
	case e := <-t.ended:
		return t.outcome(e)
	default:
	}
	if ctx.Err() != nil {
		return command.Interrupted(ctx)
	}
	err = fmt.Errorf("the agent died in the middle of the turn: %w", err)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.anyEvent {
		return agent.Retryable(err)
	}
	return err
}

// Agents write their response and their updates independently: the last pieces of a text, or a tool's end, may
// come after the response. The protocol has no other sign of the end than silence.
const (
	silence  = 100 * time.Millisecond
	mostLate = 2 * time.Second // of an agent that is never silent
)

// fallSilent waits until the agent has written nothing for a moment.
func (t *turn) fallSilent(ctx context.Context) {
	most := time.After(mostLate)
	for {
		select {
		case <-t.heard:
		case <-time.After(silence):
			return
		case <-most:
			return
		case <-ctx.Done():
			return
		case <-t.closed:
			return
		}
	}
}

// hear notes an update. t.mu is held.
func (t *turn) hear() {
	t.anyEvent = true
	select {
	case t.heard <- struct{}{}:
	default:
	}
}

// promptEnded takes the response to session/prompt: in version 1, the turn's end.
func (t *turn) promptEnded(a response) {
	if a.err != nil {
		t.end(ending{err: a.err})
		return
	}
	var result struct {
		StopReason acpsdk.StopReason `json:"stopReason"`
		Usage      json.RawMessage   `json:"usage"`
	}
	if err := json.Unmarshal(a.result, &result); err != nil {
		t.end(ending{err: fmt.Errorf("the agent's response to session/prompt is invalid: %w", err)})
		return
	}
	e := ending{stop: result.StopReason}
	var usage acpsdk.Usage
	if yes(result.Usage) && json.Unmarshal(result.Usage, &usage) == nil {
		e.usage = &usage
	}
	t.end(e)
}

// interrupt asks the agent to stop and waits until it has, or kills it.
func (t *turn) interrupt(ctx context.Context) {
	t.interrupted(ctx)
	if time.Now().Before(t.stop) {
		t.notify(acpsdk.AgentMethodSessionCancel, acpsdk.CancelNotification{SessionId: acpsdk.SessionId(t.state.ID)})
		t.cancel() // the protocol wants it in this order
		select {
		case <-t.ended:
			return
		case <-t.closed:
		case <-t.Done():
		case <-time.After(time.Until(t.stop)):
		}
	}
	t.Kill()
	_ = t.gone()
}

// outcome is the turn's error, or nil, for an ending.
func (t *turn) outcome(e ending) error {
	var refused *acpsdk.RequestError
	switch {
	case errors.As(e.err, &refused) && refused.Code == codeAuthRequired:
		return t.refused(acpsdk.AgentMethodSessionPrompt, e.err)
	case refused != nil:
		err := fmt.Errorf("the agent failed: %w", errorOf(refused))
		t.locked(func() { t.blame(err) })
		return t.LastWords(err)
	case e.err != nil:
		return e.err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.usage != nil && *e.usage != (acpsdk.Usage{}) {
		t.emitEvent(agent.Event{Type: session.EventUsage, Usage: usage(*e.usage)})
	}
	switch e.stop {
	case acpsdk.StopReasonEndTurn:
	case acpsdk.StopReasonMaxTokens:
		t.emitEvent(agent.Event{Type: session.EventNotice, Text: "The reply was truncated: it reached the limit of its length."})
	case acpsdk.StopReasonMaxTurnRequests:
		return errors.New("the agent stopped in the middle of its work: it has made as many requests to its model as one turn may have. Send another message to continue, or allow it more")
	case acpsdk.StopReasonRefusal:
		return errors.New("the agent refuses to continue. It will not remember this message: put it in other words")
	case acpsdk.StopReasonCancelled:
		return errors.New("the agent cancelled the turn without a request")
	default:
		return fmt.Errorf("the agent ended the turn for an unknown reason: %.100q", e.stop)
	}
	if !t.spoken {
		err := errors.New("the agent ended without a reply")
		t.blame(err)
		return t.LastWords(err)
	}
	if t.state.Recap || t.state.Failures > 0 {
		t.state.Recap, t.state.Failures = false, 0
		t.emitState()
	}
	return nil
}

// blame counts a failure that the agent's session may have caused. t.mu is held.
func (t *turn) blame(err error) {
	if t.known && !t.spoken && !command.Passing(err) {
		t.state.Failures++
		t.emitState()
	}
}

// usage converts the SDK's usage. The total shows whether the input includes the cached tokens.
func usage(u acpsdk.Usage) *session.Usage {
	value := func(n *int) int64 {
		if n == nil {
			return 0
		}
		return int64(*n)
	}
	cached := value(u.CachedReadTokens)
	input, output := int64(u.InputTokens), int64(u.OutputTokens)
	if int64(u.TotalTokens) > input+output {
		input += cached + value(u.CachedWriteTokens)
		output = max(output, int64(u.TotalTokens)-input)
	}
	return &session.Usage{InputTokens: input, CachedTokens: cached, OutputTokens: output}
}

// finish ends the turn's open tools and its events.
func (t *turn) finish(ctx context.Context, err error) {
	t.requests.end()
	t.terminals.end()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		t.tools.end("")
	case ctx.Err() == nil && !t.process.ended():
		t.tools.end("the turn ended before this did")
	default: // the tools were interrupted, and the transcript must say so
		t.tools.flush()
	}
	t.emit = nil
}

// emitEvent emits an event. t.mu is held.
func (t *turn) emitEvent(e agent.Event) {
	if t.emit == nil {
		return
	}
	switch e.Type {
	case session.EventText:
		t.spoken = t.spoken || strings.TrimSpace(e.Text) != ""
		t.text += len(e.Text)
	case session.EventToolStart:
		t.spoken = true
	default:
	}
	t.size += len(e.Name) + len(e.CallID) + len(e.Text) + len(e.Input) + len(e.Output) + len(e.Error)
	t.emit(e)
	switch {
	case t.text > command.MaxText:
		t.fail(errMuchText)
	case t.size > command.MaxOutput:
		t.fail(errMuch)
	default:
		return
	}
	t.emit = nil // whatever follows is dropped until the agent is gone
}

var (
	errMuchText = fmt.Errorf("it wrote more than %d MiB of text in one turn", command.MaxText>>20)
	errMuch     = fmt.Errorf("it wrote more than %d MiB in one turn", command.MaxOutput>>20)
)

// emitState stores the ID of the agent's session. t.mu is held.
func (t *turn) emitState() {
	t.emitEvent(agent.Event{Type: session.EventState, Data: encode(t.state)})
}
