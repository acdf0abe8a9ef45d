package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// deferred is a call of a tool for which the program has ended, so that the user can be asked.
type deferred struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input,omitempty"` // not if it is large
	Messages string          `json:"messages"`        // the turn's, see idsOf

	// Lost: another call of the same response has ended after it. The program would carry it out, but hide its
	// result from the model.
	Lost bool `json:"lost,omitempty"`
}

// shownInput is the largest input of a tool that a question shows.
const shownInput = 64 << 10

// answer is what the program's hook replies to a deferred call when the program is resumed.
type answer struct{ call, decision, reason string }

var (
	// toolName matches the names of tools for which the user is asked, see Config.Ask.
	toolName = regexp.MustCompile(`^[A-Za-z0-9_-]+\*?$`)

	calledTool = regexp.MustCompile(`^[A-Za-z0-9_-]{1,200}$`)

	errDeferredAgain = errors.New("the program asks again for a call that was decided: this version of it cannot be asked")
)

// hook is a shell's script, since it also runs where only the program's own files can be read. Its input ends with
// the call's ID. A helper's call could not be resumed. All but the answered call are deferred. The answer is in
// variables: no word becomes part of the script.
const hook = `in=$(cat); d=defer; r=; case "$in" in ` +
	`*',"agent_id":"'*',"hook_event_name":"PreToolUse"'*) d=deny; r='Only the main agent may use this tool: the user must be asked.';; ` +
	`*',"tool_use_id":"'"$TURNSTILE_ASK_CALL"'"}') d=$TURNSTILE_ASK_DECISION; r=$TURNSTILE_ASK_REASON;; esac; ` +
	`printf '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"%s","permissionDecisionReason":"%s"}}' "$d" "$r"`

// claudeAsks returns Claude Code's options for the tools for which it asks.
func claudeAsks(tools []string, a answer) []string {
	if a.call == "" {
		a.call = "/" // no call has this ID
	}
	type object = map[string]any
	run := object{"type": "command", "command": hook}
	matcher := "^(" + strings.ReplaceAll(strings.Join(tools, "|"), "*", ".*") + ")$"
	settings, err := json.Marshal(object{
		"hooks": object{"PreToolUse": []object{{"matcher": matcher, "hooks": []object{run}}}},
		// Not the program's own environment, which a wrapper may not pass on.
		"env": object{"TURNSTILE_ASK_CALL": a.call, "TURNSTILE_ASK_DECISION": a.decision, "TURNSTILE_ASK_REASON": a.reason},
	})
	if err != nil {
		panic(err) // strings cannot fail
	}
	return []string{"--settings", string(settings)}
}

// claudeAskEnv keeps Claude Code from a response with several calls at once, of which it ignores a hook's deferral.
const claudeAskEnv = "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK=1"

// validAsk checks Config.Ask.
func validAsk(kind Kind, config Config) error {
	switch {
	case len(config.Ask) == 0:
		return nil
	case kind != Claude:
		return fmt.Errorf("agent %s: it cannot ask the user about its tools: only %s can", kind, Claude)
	case slices.ContainsFunc(config.Command, func(word string) bool { return word == "--settings" || strings.HasPrefix(word, "--settings=") }):
		return fmt.Errorf("agent %s: its command has --settings, which the questions about its tools replace: use its settings file", kind)
	}
	for _, name := range config.Ask {
		if !toolName.MatchString(name) {
			return fmt.Errorf("agent %s: %.100q is no name of a tool for which the user is to be asked", kind, name)
		}
	}
	return nil
}

// decide asks the user about a deferred call. The call's start is stored, so that it does not run twice. ended is
// to be called at its end. goes is false if an earlier run of the turn has started it: then the program goes
// on without it, see goOn.
func (d *deferred) decide(ctx context.Context, turn *agent.Turn) (a answer, ended func() error, goes bool, err error) {
	a, ended = answer{call: d.ID, decision: "deny"}, func() error { return nil }
	if d.Lost {
		a.reason = "Nothing was done: the user must be asked. Call this tool again, alone."
		return a, ended, true, nil
	}
	step := agent.StepSpec{Key: d.ID, Name: d.Name, CallID: d.ID, Hidden: true}
	step.Permit = func(ctx context.Context) error {
		decision, err := turn.Ask(ctx, agent.Question{Key: d.ID, CallID: d.ID, Name: d.Name, Input: d.Input})
		if a.reason = "The user did not permit this use of the tool."; decision.Allowed() {
			a.decision, a.reason = "allow", "The user has permitted it."
		}
		return err
	}
	record, err := turn.StartStep(ctx, step)
	switch {
	case err != nil:
		return a, ended, false, err
	case record.State != agent.StepNew:
		return answer{}, ended, false, nil
	}
	open := true
	return a, func() error {
		if !open {
			return nil
		}
		open = false
		return turn.EndStep(ctx, step, agent.StepEnd{})
	}, true, nil
}

// deferral takes the call with which Claude Code has ended. Of several calls in one response it resumes only the last.
func (c *claudeLines) deferral(call claudeBlock) error {
	if c.prompted && !slices.Contains(c.calls, call.ID) {
		return nil // of an earlier run, which is over. Claude Code gives it up, and reads the prompt now
	}
	if !anID.MatchString(call.ID) || !calledTool.MatchString(call.Name) {
		return errors.New("a deferred tool without id or name")
	}
	d := &deferred{ID: call.ID, Name: call.Name, Messages: c.turn}
	if len(call.Input) <= shownInput {
		d.Input = noNull(call.Input)
	}
	after := false
	for _, id := range c.calls {
		switch {
		case id == call.ID:
			after = true
		case after:
			d.Lost = d.Lost || c.ends[id]
		case !c.ends[id]:
			if err := c.toolEnd(id, nil, "it was not done: the agent asked for another tool at the same time"); err != nil {
				return err
			}
		}
	}
	c.state.Deferred = d
	c.end("")
	return c.storeState()
}

// onToolEnd calls then after a tool's end was emitted.
func onToolEnd(emit func(agent.Event), callID string, then func()) func(agent.Event) {
	return func(e agent.Event) {
		emit(e)
		if e.Type == session.EventToolEnd && e.CallID == callID {
			then()
		}
	}
}
