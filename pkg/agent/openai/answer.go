package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/respjson"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// maxAnswer limits one answer of a model, in bytes of text, thoughts and arguments.
const maxAnswer = 16 << 20 // tests have less

// fragmentSize is what a piece of a tool call counts for itself: one that is empty can
// begin a call, too.
const fragmentSize = 32

// answer is one answer of the model, while it comes and after.
type answer struct {
	text      strings.Builder // refusals too
	reasoning strings.Builder // reasoning_content only
	calls     []toolCall
	finish    string
	usage     *session.Usage
	size      int

	open map[int64]int // the call of each index that fragments are for
}

// message is the answer as later requests repeat it.
func (a *answer) message() message {
	m := message{role: roleAssistant, text: a.text.String(), calls: a.calls}
	if len(a.calls) > 0 {
		m.reasoning = a.reasoning.String()
	}
	return m
}

// stream asks the model once. What comes is emitted while it comes. After an error the
// answer has what came before it.
func (r *run) stream(ctx context.Context) (*answer, error) {
	a := &answer{open: map[int64]int{}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := r.chat.NewStreaming(ctx, r.request())
	defer func() { _ = stream.Close() }() // the request is over, whatever becomes of this
	for stream.Next() {
		if err := r.chunk(a, stream.Current()); err != nil {
			return a, err
		}
	}
	if a.usage != nil {
		r.emit(agent.Event{Type: agent.EventUsage, Usage: a.usage})
	}
	switch err := stream.Err(); {
	case a.finish != "": // all has come; what broke then is not missed
		return a, nil
	case err != nil:
		return a, err
	}
	return a, errEnded
}

var (
	errEnded   = errors.New("the answer ended in the middle") // without a finish_reason
	errTooMuch = fmt.Errorf("the model's answer has no end: it is longer than %d MiB", maxAnswer>>20)
)

func (r *run) chunk(a *answer, c sdk.ChatCompletionChunk) error {
	if c.JSON.Usage.Valid() {
		a.usage = usageOf(c, r.config.Model)
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // one was asked for
		}
		d := choice.Delta
		a.size += len(d.Content) + len(d.Refusal)
		for _, text := range []string{d.Content, d.Refusal} {
			if text != "" {
				a.text.WriteString(text)
				r.emit(agent.Event{Type: agent.EventText, Text: text})
			}
		}
		a.think(d.JSON.ExtraFields, r.emit)
		for _, fragment := range d.ToolCalls {
			a.fragment(fragment)
		}
		if choice.FinishReason != "" {
			a.finish = choice.FinishReason
		}
	}
	if a.size > r.maxAnswer {
		return errTooMuch
	}
	return nil
}

// think passes on what servers show of the model's thinking.
func (a *answer) think(extra map[string]respjson.Field, emit func(agent.Event)) {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		var text string
		if json.Unmarshal([]byte(extra[name].Raw()), &text) != nil || text == "" {
			continue
		}
		a.size += len(text)
		if name == "reasoning_content" {
			a.reasoning.WriteString(text)
		}
		emit(agent.Event{Type: agent.EventThought, Text: text})
		return // some send both, with the same text
	}
}

// fragment adds a piece of a tool call. A new one begins with a new index, or with a
// new id, for some servers give all calls the same index.
func (a *answer) fragment(f sdk.ChatCompletionChunkChoiceDeltaToolCall) {
	at, known := a.open[f.Index]
	if !known || f.ID != "" && a.calls[at].id != "" && a.calls[at].id != f.ID {
		at = len(a.calls)
		a.calls = append(a.calls, toolCall{})
		a.open[f.Index] = at
	}
	c := &a.calls[at]
	if c.id == "" {
		c.id = f.ID
	}
	if c.name == "" {
		c.name = f.Function.Name
	}
	c.raw = append(c.raw, f.Function.Arguments...)
	a.size += len(f.Function.Arguments) + len(f.Function.Name) + len(f.ID) + fragmentSize
}

// settle makes the calls ready to be run and repeated: every id is the only one of its
// kind, and arguments that are no object are not sent to a server again.
func (a *answer) settle(ids *callIDs) {
	for i := range a.calls {
		c := &a.calls[i]
		c.id = ids.unique(c.id)
		if len(bytes.TrimSpace(c.raw)) == 0 {
			c.raw = []byte("{}")
		}
		c.args = fittingArgs(c.raw)
	}
}

func usageOf(c sdk.ChatCompletionChunk, model string) *session.Usage {
	u := c.Usage
	if c.Model != "" {
		model = c.Model
	}
	return &session.Usage{
		Model: model, InputTokens: u.PromptTokens, CachedTokens: u.PromptTokensDetails.CachedTokens,
		OutputTokens: u.CompletionTokens, ContextTokens: u.PromptTokens + u.CompletionTokens,
	}
}
