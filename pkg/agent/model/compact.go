package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"turnstile/internal/text/frame"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// summaryStep is the key of the step that sums up what is left out. A turn has at most one.
const summaryStep = "compact:1"

// summaryShare is the part of the context that is kept free for a summary: a tenth.
const summaryShare = 10

// maxSummary limits a summary, in bytes: the session's state has it.
const maxSummary = 32 << 10

// summed is the result of the step: all that another run needs for the same requests.
type summed struct {
	Window window `json:"window"`
	Note   string `json:"note,omitempty"` // the turn's: a run after a step is given none
}

// recallSummary takes over the window and the summary of an earlier run of the turn, if there was one.
func (r *run) recallSummary(ctx context.Context) (done bool, err error) {
	if !slices.ContainsFunc(r.turn.Steps, func(s agent.StepRecord) bool { return s.Key == summaryStep }) {
		return false, nil
	}
	record, err := r.turn.StartStep(ctx, agent.StepSpec{Key: summaryStep, Safe: true, Hidden: true})
	if err != nil {
		return false, err
	}
	var s summed
	if err := json.Unmarshal(record.Output, &s); err != nil {
		return false, fmt.Errorf("step %s of an earlier run: %w: its summary cannot be read: %w", summaryStep, agent.ErrStep, err)
	}
	turn := *r.turn
	turn.Note = s.Note
	r.turn, r.window = &turn, s.Window
	return true, nil
}

// compact has the model sum up what is left out. If it cannot, the turn goes on without, and a summary of what had been
// left out earlier stays.
func (r *run) compact(ctx context.Context, left []block) error {
	s := agent.StepSpec{Key: summaryStep, Safe: true, Hidden: true}
	if _, err := r.turn.StartStep(ctx, s); err != nil {
		return err
	}
	summary, err := r.sumUp(ctx, left)
	switch {
	case ctx.Err() != nil || errors.Is(err, agent.ErrRetryable) || errors.Is(err, agent.ErrParked):
		return err
	case err != nil:
		r.log.Warn("the history's oldest part is left out without a summary", "error", err)
	default:
		r.window.Summary = summary
	}
	output, failed := encode(summed{r.window, r.turn.Note})
	if failed != nil {
		return failed
	}
	if failed := r.turn.EndStep(ctx, s, agent.StepEnd{Output: output}); failed != nil || err != nil {
		return failed
	}
	r.turn.Emit(agent.Event{Type: session.EventNotice, Text: "This conversation has become long: its beginning was summed up for the model."})
	return nil
}

// sumUp asks the model for a summary. The request begins as the session's last one did, which makes it cheap, and has the
// same tools, because some servers refuse calls in a history without them. None is run.
func (r *run) sumUp(ctx context.Context, left []block) (string, error) {
	bytes := min(r.config.ContextTokens*bytesPerToken/summaryShare, maxSummary)
	quiet := *r.turn
	quiet.Host.Emit = func(e agent.Event) {
		if e.Type == session.EventUsage || e.Type == session.EventNotice {
			r.turn.Emit(e)
		}
	}
	ask := message{role: roleUser, text: fmt.Sprintf("[Sum up this conversation for yourself, in at most %d words: the summary will stand in its place. "+
		"Keep what the user has told you and wants, what was decided and done, names, numbers, paths, and what is open. "+
		"Reply with the summary only, and call no tool.]", min(bytes/8, 600))}
	of := *r
	of.turn, of.ids, of.present, of.output = &quiet, newCallIDs(), []message{ask}, false
	of.request.choice, of.request.format, of.request.stop = nil, nil, nil
	room := r.config.ContextTokens - r.fixed - newBlock(ask).tokens // a session may come here with more than one request takes
	of.history = left[cut(left, 0, block.size, room, room):]
	reply, err := of.complete(ctx)
	r.request.demands, r.waited = of.request.demands, of.waited
	if err != nil {
		return "", err
	}
	summary := strings.TrimSpace(reply.text.String())
	if summary == "" {
		return "", errors.New("the model wrote no summary")
	}
	return strings.ToValidUTF8(summary[:min(len(summary), bytes)], ""), nil
}

// summaryOf is the message that stands for what is left out.
func summaryOf(text string) message {
	return message{role: roleUser, text: "[The beginning of this conversation is left out here. Your summary of it:]\n\n" + frame.All(text)}
}
