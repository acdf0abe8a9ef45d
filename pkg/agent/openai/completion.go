package openai

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// maxCompletion limits one reply of a model, in bytes of text, thoughts and arguments.
const maxCompletion = 16 << 20 // tests set less

// fragmentSize is the least size that a piece of a tool call counts: an empty piece can begin a call.
const fragmentSize = 32

// completion is one reply of the model, complete or not.
type completion struct {
	text      strings.Builder // with refusals
	reasoning strings.Builder // reasoning_content only
	calls     []toolCall
	finish    string
	usage     *session.Usage
	size      int

	open map[int64]int // the call of each fragment's index
}

// message is the reply as later requests repeat it.
func (a *completion) message() message {
	m := message{role: roleAssistant, text: a.text.String(), calls: a.calls}
	if len(a.calls) > 0 {
		m.reasoning = a.reasoning.String()
	}
	return m
}

// stream requests one completion and emits it while it comes. With an error it returns the part that came before.
func (r *run) stream(ctx context.Context) (*completion, error) {
	a := &completion{open: map[int64]int{}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := r.post(ctx, r.turn.TraceParent, r.next())
	if err != nil {
		return a, err
	}
	defer stream.Close()
	for c, broken := range chunks(stream) {
		if broken != nil {
			err = broken
			break
		}
		if err := r.chunk(a, c); err != nil {
			return a, err
		}
	}
	if a.usage != nil {
		r.turn.Emit(agent.Event{Type: session.EventUsage, Usage: a.usage})
	}
	switch {
	case a.finish != "": // the reply is complete, a later error changes nothing
		return a, nil
	case err != nil:
		return a, err
	}
	return a, errEnded
}

var (
	errEnded   = errors.New("the reply ended in the middle") // without a finish_reason
	errTooMuch = fmt.Errorf("the model's reply is too long: it has more than %d MiB", maxCompletion>>20)
)

func (r *run) chunk(a *completion, c chunk) error {
	if c.Usage != nil {
		a.usage = usageOf(c, r.config.Model)
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // one was requested
		}
		d := choice.Delta
		a.size += len(d.Content) + len(d.Refusal)
		for _, text := range []words{d.Content, d.Refusal} {
			if text != "" {
				a.text.WriteString(string(text))
				r.output = true
				r.turn.Emit(agent.Event{Type: session.EventText, Text: string(text)})
			}
		}
		// Some servers send both, with the same text.
		a.reasoning.WriteString(string(d.Thoughts))
		if text := cmp.Or(d.Thoughts, d.Reasoning); text != "" {
			a.size += len(text)
			r.turn.Emit(agent.Event{Type: session.EventThought, Text: string(text)})
		}
		for _, fragment := range d.ToolCalls {
			a.fragment(fragment)
		}
		if choice.Finish != "" {
			a.finish = string(choice.Finish)
		}
	}
	if a.size > r.maxCompletion {
		return errTooMuch
	}
	return nil
}

// fragment adds a piece of a tool call. A new index begins a new call, and so does a new ID,
// because some servers give all calls the same index.
func (a *completion) fragment(f fragment) {
	at, known := a.open[f.Index]
	if !known || f.ID != "" && a.calls[at].id != "" && a.calls[at].id != string(f.ID) {
		at = len(a.calls)
		a.calls = append(a.calls, toolCall{})
		a.open[f.Index] = at
	}
	c := &a.calls[at]
	if c.id == "" {
		c.id = string(f.ID)
	}
	if c.name == "" {
		c.name = string(f.Function.Name)
	}
	c.raw = append(c.raw, f.Function.Arguments...)
	a.size += len(f.Function.Arguments) + len(f.Function.Name) + len(f.ID) + fragmentSize
}

// normalizeCalls makes the calls ready to run and to repeat: every ID becomes unique, and arguments
// that are not an object are not sent to a server again.
func (a *completion) normalizeCalls(ids *callIDs) {
	for i := range a.calls {
		c := &a.calls[i]
		c.id = ids.unique(c.id)
		if len(bytes.TrimSpace(c.raw)) == 0 {
			c.raw = []byte("{}")
		}
		c.args = fittingArgs(c.raw)
	}
}

func usageOf(c chunk, model string) *session.Usage {
	u := c.Usage
	return &session.Usage{
		Model: cmp.Or(c.Model, model), InputTokens: u.Prompt, CachedTokens: u.Details.Cached,
		OutputTokens: u.Completion, ContextTokens: u.Prompt + u.Completion,
	}
}
