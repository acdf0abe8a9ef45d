package openai

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// run is one turn.
type run struct {
	*Agent
	turn *agent.Turn
	emit func(agent.Event)
	log  *slog.Logger

	who     *agent.Speakers
	history []block
	present []message // the turn itself, so far
	ids     *callIDs
	dropped int // blocks of history, left out of the last request

	output bool          // the turn has emitted text or used a tool
	waited time.Duration // between retries, in all
}

// Run runs one turn. It returns when no tool runs and the last request is done.
func (a *Agent) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	if ctx.Err() != nil {
		return agent.Result{}, command.Interrupted(ctx)
	}
	r := &run{
		Agent: a, turn: turn, who: turn.Speakers(), ids: newCallIDs(),
		log: a.config.Logger.With("session", turn.Session, "turn", turn.ID, "fence", turn.Fence),
	}
	r.emit = func(e agent.Event) {
		switch e.Type {
		case session.EventText, session.EventToolStart:
			r.output = true
		}
		turn.Emit(e)
	}
	r.history = blocks(turn.History, r.who, r.ids)
	r.present = present(turn, r.who)
	err := r.converse(ctx)
	if err != nil && ctx.Err() != nil {
		err = command.Interrupted(ctx)
	}
	return agent.Result{}, err
}

// converse asks the model until it has finished and no steer is left.
func (r *run) converse(ctx context.Context) error {
	for rounds := 0; ; {
		reply, err := r.complete(ctx)
		if err != nil {
			return err
		}
		if reply.text.Len() > 0 || len(reply.calls) > 0 {
			r.present = append(r.present, reply.message())
		}
		if len(reply.calls) > 0 {
			if rounds++; rounds > r.config.ToolRounds {
				return fmt.Errorf("the model has used tools %d times in this turn and calls more, which is not allowed: "+
					"tool_rounds of TURNSTILE_OPENAI_FILE is the limit; what it has done until now is kept", r.config.ToolRounds)
			}
			for _, c := range reply.calls {
				if err := r.use(ctx, c); err != nil {
					return err
				}
			}
		}
		if !r.steer() && len(reply.calls) == 0 {
			return r.finish(reply)
		}
	}
}

// finish ends a turn after its last reply.
func (r *run) finish(last *completion) error {
	switch {
	case r.output:
		return nil
	case last.finish == "length":
		return errors.New("the model reached the limit of its reply before it wrote any text: raise max_tokens of TURNSTILE_OPENAI_FILE")
	}
	return errors.New("the model ended without a reply")
}

// steer takes the steers that have arrived, and reports whether there were any.
func (r *run) steer() (taken bool) {
	for {
		select {
		case s, ok := <-r.turn.Steers():
			if !ok {
				return taken
			}
			r.present = append(r.present, userMessage(r.who, s.Message.Text, s.Message.Meta, s.Message.Attachments))
			s.Accept()
			taken = true
		default:
			return taken
		}
	}
}

// next returns the next request.
func (r *run) next() request {
	left := r.config.ContextTokens - r.fixed - newBlock(r.present...).tokens
	kept, dropped := fit(r.history, left)
	if dropped > r.dropped {
		r.log.Debug("the history is too long, its oldest part is left out",
			"entries_left_out", dropped, "kept", len(kept), "context_tokens", r.config.ContextTokens)
	}
	r.dropped = dropped
	var messages []message
	if r.config.SystemPrompt != "" {
		messages = append(messages, message{role: roleSystem, text: r.config.SystemPrompt})
	}
	if dropped > 0 && len(kept) > 0 && kept[0].messages[0].role != roleUser {
		messages = append(messages, leftOut)
	}
	for _, b := range kept {
		messages = append(messages, b.messages...)
	}
	next := r.request
	for _, m := range append(messages, r.present...) {
		next.Messages = append(next.Messages, m.wire())
	}
	return next
}

// blind replaces the history's images by their names, and reports whether there were any.
func (r *run) blind() (changed bool) {
	for i, b := range r.history {
		for k, m := range b.messages {
			if len(m.images) > 0 {
				b.messages[k], changed = m.blind(), true
			}
		}
		r.history[i] = newBlock(b.messages...)
	}
	return changed
}
