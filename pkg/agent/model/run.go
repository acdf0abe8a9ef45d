package model

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"turnstile/internal/mcp"
	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// run is one turn.
type run struct {
	*Agent
	turn  *agent.Turn
	log   *slog.Logger
	tools map[string]tool // the agent's, and those of its servers

	asks      *session.ModelRequest // nil: the client's program asks for nothing
	functions map[string]bool       // the names of its functions
	request   request               // the common part of the turn's requests
	fixed     int

	who     *agent.Speakers
	history []block
	brought int       // so many of its last ones came with the request, and are always sent
	window  window    // what of it is sent
	blinded bool      // the history's images are only named
	present []message // the turn itself, so far
	ids     *callIDs
	shrunk  place // the last block of the history that is left out because the server has refused a longer request
	mended  mendings

	kept    []session.Entry // steers that earlier runs have accepted, and this one has not come to
	arrived *agent.Steer    // a steer that is not accepted yet
	taken   int             // steers, in all runs

	output bool // the turn has emitted text or used a tool
	waited bool // for a busy server
}

// Run runs one turn. It returns when no tool runs and the last request is done.
func (a *Agent) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	if a.servers != nil && ctx.Err() == nil {
		return a.runOnce(ctx, turn)
	}
	return a.run(ctx, turn, nil)
}

// run runs one turn with the servers of its session. nil: there are none.
func (a *Agent) run(ctx context.Context, turn *agent.Turn, set *mcp.Set) (agent.Result, error) {
	if ctx.Err() != nil {
		return agent.Result{}, command.Interrupted(ctx)
	}
	r := &run{
		Agent: a, turn: turn, tools: a.tools, who: turn.Speakers(), ids: newCallIDs(), kept: steers(turn.Kept),
		log:     a.config.Logger.With("session", turn.Session, "turn", turn.ID, "fence", turn.Fence),
		request: a.request, fixed: a.fixed, functions: map[string]bool{},
	}
	if set != nil {
		if err := r.serve(ctx, set); err != nil {
			return agent.Result{}, err
		}
	}
	r.bring()
	if err := r.instruct(); err != nil {
		return agent.Result{}, err
	}
	truncated, err := false, r.look(ctx)
	if err == nil {
		r.note(r.turn.Note)
		truncated, err = r.converse(ctx)
	}
	if err != nil && ctx.Err() != nil && !errors.Is(err, agent.ErrParked) {
		err = command.Interrupted(ctx)
	}
	return agent.Result{Cut: truncated}, err
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
			r.present = append(r.present, r.message(reply))
		}
		own, clients := r.parted(reply.calls)
		if last {
			r.hand(clients, false)
			return reply.finish == finishLength, r.finish(reply)
		}
		if own > 0 {
			if rounds++; rounds > r.config.ToolRounds {
				return false, fmt.Errorf("the model exceeded %d tool rounds in one turn: "+
					"tool_rounds of TURNSTILE_MODEL_FILE is the limit; what it has done until now is kept", r.config.ToolRounds)
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
			r.request.toolsOver = true
		case string(r.request.choice) != `"none"`:
			r.request.choice = nil // a choice that forces a tool has been obeyed
		}
	}
}

// finish ends a turn after its last reply.
func (r *run) finish(last *completion) error {
	if last.text.Len() > 0 || r.asks != nil { // the client's program knows what a limit is
		return nil
	}
	return errors.New("the model reached the limit of its reply before it wrote any text: raise max_tokens of TURNSTILE_MODEL_FILE, or the limit of the request")
}

// next returns the next request.
func (r *run) next() request {
	var said []message
	for _, b := range r.history {
		said = append(said, b.messages...)
	}
	stable := len(said)
	said = append(said, r.present...)
	next := r.request
	switch {
	case r.window.Summary != "":
		next.messages = append(next.messages, summaryOf(r.window.Summary))
	case (r.window.Left != (place{}) || r.shrunk != (place{})) && len(said) > 0 && said[0].role != roleUser:
		next.messages = append(next.messages, leftOut)
	}
	next.stable = len(next.messages) + stable
	next.messages = append(next.messages, said...)
	return next
}

// blind replaces the history's images by their names, and reports whether there were any.
func (r *run) blind() (changed bool) {
	r.blinded = true
	for i, b := range r.history {
		changed = changed || b.imageBytes() > 0
		r.history[i] = b.blind()
	}
	return changed
}
