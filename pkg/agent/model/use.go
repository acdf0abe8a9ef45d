package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"turnstile/internal/process/command"
	"turnstile/internal/process/guardian"
	"turnstile/internal/text/boundedjson"
	"turnstile/pkg/agent"
)

// maxResult limits a tool's result, in bytes. If the model's context is small, the limit is half of
// it.
const maxResult = 256 << 10

// use carries out one call, which is a step, and adds its result to the messages. It returns only errors
// that end the turn; the model receives all others.
func (r *run) use(ctx context.Context, key string, c toolCall, parallel bool) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t, failed := r.find(c)
	s := agent.StepSpec{Key: key, Name: fittingName(c.name), CallID: c.id, Input: input(c.raw), Safe: failed != nil || t.Safe, RunAgain: t.runsAgain(), Parallel: parallel, Sent: c.sent}
	if failed == nil && (t.Ask || len(t.Approvers) > 0) {
		s.Permit = func(ctx context.Context) error { return r.ask(ctx, key, t, c) }
	}
	record, err := r.turn.StartStep(ctx, s)
	end := agent.StepEnd{Output: record.Output, Error: record.Error}
	switch {
	case errors.Is(err, errDenied):
		failed = errDenied
	case err != nil:
		return err
	case record.State == agent.StepDone:
		r.give(c, end)
		return nil
	case record.State == agent.StepUnknown && !s.RunAgain:
		failed = errors.New(cutOff)
	case failed == nil:
		if end.Output, failed, err = r.start(ctx, t, c.args, record.IdempotencyKey); err != nil {
			return err // the step stays open: the tool has not finished
		}
	}
	if failed != nil {
		end = agent.StepEnd{Error: failed.Error()}
	}
	r.give(c, end)
	return r.turn.EndStep(ctx, s, end)
}

// give adds a call's result to the messages.
func (r *run) give(c toolCall, end agent.StepEnd) {
	text := plain(end.Output)
	if end.Error != "" {
		text = failedTool(end.Error)
	}
	r.present = append(r.present, message{role: roleTool, callID: c.id, text: text})
}

// find returns the tool of a call. failed is for the model.
func (r *run) find(c toolCall) (t tool, failed error) {
	t, ok := r.tools[c.name]
	if !ok {
		return t, fmt.Errorf("there is no tool named %q", c.name)
	}
	if c.truncated {
		return t, errors.New("it was not run: your reply reached the limit of its length and was truncated, so the call may not be whole")
	}
	var object map[string]json.RawMessage
	if err := boundedjson.Unmarshal(c.raw, &object); err != nil {
		return t, fmt.Errorf("the arguments are not a JSON object (%w): %s", err, oneLine(string(c.raw)))
	}
	return t, nil
}

// input is a call's arguments as its step has them.
func input(raw []byte) json.RawMessage {
	if compact := compacted(raw); compact != nil {
		return compact
	}
	return quoted(string(raw))
}

// compacted is JSON without white space, as the journal and the transcript keep it, or nil if it is none.
func compacted(text []byte) json.RawMessage {
	var b bytes.Buffer
	if !utf8.Valid(text) || json.Compact(&b, text) != nil {
		return nil
	}
	return b.Bytes()
}

// errDenied is a tool's result, for the model, if the user denied its use.
var errDenied = errors.New("the user did not permit this use of the tool")

// ask asks for the permission to use a tool.
func (r *run) ask(ctx context.Context, key string, t tool, c toolCall) error {
	decision, err := r.turn.Ask(ctx, agent.Question{
		Key: key, CallID: c.id, Name: t.Name, Text: t.Description, Input: json.RawMessage(c.args), Approvers: t.Approvers,
	})
	if err != nil || decision.Allowed() {
		return err
	}
	return errDenied
}

// start runs a tool and waits for its end. key is the step's, for the receivers of its effects.
func (r *run) start(ctx context.Context, t tool, args, key string) (output json.RawMessage, failed, err error) {
	if t.call != nil {
		return r.callServer(ctx, t, args, key)
	}
	spec, err := t.isolator.Apply(command.Spec{
		Argv: t.Argv, Dir: t.Dir, Env: append(t.environ.ForTurn(os.Environ(), r.turn), "TURNSTILE_STEP_KEY="+key),
		Lease: r.turn.Host.Lease, Logger: r.log.With("tool", t.Name),
	}, r.turn.Session)
	if err != nil {
		return nil, notStarted(err), nil
	}
	p, err := command.Start(spec)
	if err != nil {
		return nil, notStarted(err), nil
	}
	defer p.CloseOutput()
	var pipes sync.WaitGroup
	pipes.Go(func() {
		_, _ = io.WriteString(p.Stdin, args) // a tool need not read it
		_ = p.Stdin.Close()
	})
	result := r.newResult()
	pipes.Go(func() { _, _ = io.Copy(&result, p.Stdout) })

	limit := cmp.Or(t.Timeout, r.config.ToolTimeout)
	status, late := r.await(ctx, p, limit)
	pipes.Wait()
	switch unfit := command.Unfit(status); {
	case errors.Is(unfit, agent.ErrLeaseLost):
		return nil, nil, unfit
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case late:
		return nil, p.WithStderr(fmt.Sprintf("killed, for it took longer than %s", limit)), nil
	case status.StartError != nil:
		return nil, notStarted(unfit), nil
	case unfit != nil:
		return nil, errors.New("killed from outside"), nil
	}
	if failed := p.Failure(status); failed != nil {
		return nil, failed, nil
	}
	return result.json(), nil, nil
}

// await waits for a tool's end, and ends it at its limit or with the turn.
func (r *run) await(ctx context.Context, p *command.Command, limit time.Duration) (status guardian.Status, late bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.End(ctx, r.config.Grace)
	case <-timer.C:
		late = true
		p.Kill()
	}
	return p.Wait(), late
}

// notStarted speaks of a tool, where the error speaks of the agent.
func notStarted(err error) error {
	return errors.New("could not start the tool: " + strings.TrimPrefix(err.Error(), "could not start the agent: "))
}

// result is a tool's output, up to a limit. The rest is only counted.
type result struct {
	limit int
	data  []byte
	size  int
}

func (r *run) newResult() result {
	return result{limit: min(maxResult, r.config.ContextTokens*bytesPerToken/2)}
}

func (r *result) Write(p []byte) (int, error) {
	r.size += len(p)
	r.data = append(r.data, p[:min(len(p), r.limit-len(r.data))]...)
	return len(p), nil
}

// json is the result itself, without white space, if it is JSON, else the result as a string.
func (r *result) json() json.RawMessage {
	if r.size > len(r.data) {
		return quoted(fmt.Sprintf("%s\n[truncated here: the tool wrote %d bytes, these are the first %d]",
			strings.ToValidUTF8(string(r.data), "\uFFFD"), r.size, len(r.data)))
	}
	if compact := compacted(r.data); compact != nil {
		return compact
	}
	return quoted(strings.TrimRight(string(r.data), "\r\n"))
}

// quoted is a text as JSON.
func quoted(text string) json.RawMessage {
	data, _ := encode(strings.ToValidUTF8(text, "\uFFFD")) // a string can be encoded
	return data
}
