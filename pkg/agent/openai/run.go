package openai

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// run is one turn.
type run struct {
	*Agent
	turn *agent.Turn
	log  *slog.Logger

	asks      *session.ModelRequest // nil: the client's program asks for nothing
	functions map[string]bool       // the names of its functions
	request   request               // the common part of the turn's requests
	system    string
	fixed     int

	who     *agent.Speakers
	history []block
	brought int       // so many of its last ones came with the request, and are always sent
	blinded bool      // the history's images are only named
	present []message // the turn itself, so far
	ids     *callIDs
	dropped int // blocks of history, left out of the last request

	kept    []session.Entry // steers that earlier runs have accepted, and this one has not come to
	arrived *agent.Steer    // a steer that is not accepted yet
	taken   int             // steers, in all runs

	output bool          // the turn has emitted text or used a tool
	waited time.Duration // between retries, in all
}

// Run runs one turn. It returns when no tool runs and the last request is done.
func (a *Agent) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	if ctx.Err() != nil {
		return agent.Result{}, command.Interrupted(ctx)
	}
	r := &run{
		Agent: a, turn: turn, who: turn.Speakers(), ids: newCallIDs(), kept: steers(turn.Kept),
		log:     a.config.Logger.With("session", turn.Session, "turn", turn.ID, "fence", turn.Fence),
		request: a.request, system: a.config.SystemPrompt, fixed: a.fixed, functions: map[string]bool{},
	}
	r.bring()
	if err := r.instruct(); err != nil {
		return agent.Result{}, err
	}
	cut, err := r.converse(ctx)
	if err != nil && ctx.Err() != nil && !errors.Is(err, agent.ErrParked) {
		err = command.Interrupted(ctx)
	}
	return agent.Result{Cut: cut}, err
}

// converse asks the model until it has finished and no steer is left. cut: its last reply reached a limit.
func (r *run) converse(ctx context.Context) (cut bool, err error) {
	rounds := 0
	for n := 1; ; n++ {
		reply, last, err := r.respond(ctx, n)
		if err != nil {
			return false, err
		}
		if reply.text.Len() > 0 || len(reply.calls) > 0 {
			r.output = true
			r.present = append(r.present, reply.message())
		}
		own, clients := r.parted(reply.calls)
		if last {
			r.hand(clients, false)
			return reply.finish == finishLength, r.finish(reply)
		}
		if own > 0 {
			if rounds++; rounds > r.config.ToolRounds {
				return false, fmt.Errorf("the model exceeded %d tool rounds in one turn: "+
					"tool_rounds of TURNSTILE_OPENAI_FILE is the limit; what it has done until now is kept", r.config.ToolRounds)
			}
		}
		used := 0
		for i, c := range reply.calls {
			if r.functions[c.name] {
				continue
			}
			if err := r.use(ctx, fmt.Sprintf("call:%d.%d", n, i+1), c, used > 0); err != nil {
				return false, err
			}
			used++
		}
		if len(clients) > 0 {
			r.hand(clients, used > 0)
			return reply.finish == finishLength, nil
		}
		switch {
		case own > 0 && rounds == r.config.ToolRounds:
			r.log.Warn("the model has used tools as often as it may in one turn: it is asked for its reply without them", "tool_rounds", rounds)
			r.request.Tools, r.request.ToolChoice = nil, nil
		case string(r.request.ToolChoice) != `"none"`:
			r.request.ToolChoice = nil // a choice that forces a tool has been obeyed
		}
	}
}

// finish ends a turn after its last reply.
func (r *run) finish(last *completion) error {
	switch {
	case r.output:
		return nil
	case last.finish == finishLength:
		return errors.New("the model reached the limit of its reply before it wrote any text: raise max_tokens of TURNSTILE_OPENAI_FILE, or the limit of the request")
	}
	return errors.New("the model ended without a reply")
}

// next returns the next request.
func (r *run) next() request {
	kept, dropped := fit(r.history, r.brought, r.config.ContextTokens-r.fixed-newBlock(r.present...).tokens)
	if dropped > r.dropped {
		r.log.Debug("the history is too long, its oldest part is left out",
			"entries_left_out", dropped, "kept", len(kept), "context_tokens", r.config.ContextTokens)
	}
	r.dropped = dropped
	var messages []message
	if r.system != "" {
		messages = append(messages, message{role: roleSystem, text: r.system})
	}
	var said []message
	for _, b := range kept {
		said = append(said, b.messages...)
	}
	said = append(said, r.present...)
	if first := slices.IndexFunc(said, func(m message) bool { return m.role != roleSystem }); dropped > 0 && first >= 0 && said[first].role != roleUser {
		messages = append(messages, leftOut)
	}
	next := r.request
	for _, m := range append(messages, said...) {
		next.Messages = append(next.Messages, m.wire())
	}
	return next
}

// blind replaces the history's images by their names, and reports whether there were any.
func (r *run) blind() (changed bool) {
	r.blinded = true
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
