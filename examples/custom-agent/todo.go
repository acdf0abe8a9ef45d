package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

const help = "Say \"add milk\", \"done 1\" or \"list\", one a line."

// todoAgent keeps a to-do list for each session. It stores nothing itself: it makes the list from
// the user's messages, so the list is the same on every worker, and follows /undo, /retry and /new.
//
// The zero value works. One todoAgent serves all sessions at once, so the state of a turn is in
// turn.
type todoAgent struct {
	pause time.Duration // between two words of the reply
}

var (
	_ agent.Agent     = todoAgent{}
	_ agent.Describer = todoAgent{}
)

// Traits says that messages may join a running turn, see turn.wait.
func (todoAgent) Traits() agent.Traits { return agent.Traits{Steerable: true} }

// Run is all of the interface agent.Agent.
func (a todoAgent) Run(ctx context.Context, in *agent.Turn) (agent.Result, error) {
	t := &turn{agent: a, in: in, list: replay(in)}
	for _, m := range in.Messages {
		t.do(m)
	}
	if err := t.reply(ctx); err != nil {
		return agent.Result{}, err
	}
	return agent.Result{}, nil // the reply is the text that was emitted
}

// replay is the list before the turn. If an interrupted turn is resumed, the history ends with its
// entries, this turn's messages included. Those are skipped, because this turn carries them out. So are turns that
// failed or were stopped: nothing of them counts.
func replay(in *agent.Turn) (l list) {
	now, ended := map[string]bool{}, map[string]bool{}
	for _, m := range in.Messages {
		now[m.ID] = true
	}
	for _, e := range in.History {
		ended[e.Turn] = ended[e.Turn] || e.Ended != nil
	}
	for _, e := range in.History {
		if e.Role == session.RoleUser && !now[e.Message] && !ended[e.Turn] {
			for line := range strings.Lines(e.Text) {
				l.apply(line)
			}
		}
	}
	return l
}

// turn is one run of the agent.
type turn struct {
	agent todoAgent
	in    *agent.Turn
	list  list
	calls int
	left  []string // words of the reply that are not emitted yet
}

// do carries out a message. Each change is a use of a tool, so subscribers see it and the
// transcript has it.
func (t *turn) do(m session.Message) {
	for line := range strings.Lines(m.Text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		t.calls++
		id := strconv.Itoa(t.calls)
		t.in.Emit(agent.Event{Type: session.EventToolStart, Name: "todo", CallID: id, Input: encode(line)})
		end := agent.Event{Type: session.EventToolEnd, Name: "todo", CallID: id}
		if t.list.apply(line) {
			end.Output = encode(t.list)
		} else {
			end.Error = help
		}
		t.in.Emit(end)
	}
	t.left = words(t.list)
}

// reply emits the list, word by word.
func (t *turn) reply(ctx context.Context) error {
	for len(t.left) > 0 {
		t.in.Emit(agent.Event{Type: session.EventText, Text: t.left[0]})
		t.left = t.left[1:]
		if err := t.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// wait is the boundary between two words. Here the turn can be interrupted, and a message that
// arrived meanwhile joins it. The reply then begins again.
func (t *turn) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx) // the emitted text is kept
	case s := <-t.in.Steers():
		s.Accept() // first, because from here on it belongs to this turn
		t.do(s.Message)
		return nil
	case <-time.After(t.agent.pause):
		return nil
	}
}

// item is one task.
type item struct {
	Text string `json:"text"`
	Done bool   `json:"done"`
}

type list []item

// apply carries out one line, and reports whether it understood it.
func (l *list) apply(line string) bool {
	verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	rest = strings.TrimSpace(rest)
	switch strings.ToLower(verb) {
	case "add":
		if rest != "" {
			*l = append(*l, item{Text: rest})
		}
		return rest != ""
	case "done":
		n, err := strconv.Atoi(rest)
		if err != nil || n < 1 || n > len(*l) {
			return false
		}
		(*l)[n-1].Done = true
		return true
	case "list":
		return true
	}
	return false
}

// words is the list as the words of a reply.
func words(l list) []string {
	if len(l) == 0 {
		return strings.SplitAfter("Nothing to do. "+help, " ")
	}
	var text strings.Builder
	for i, it := range l {
		box := " "
		if it.Done {
			box = "x"
		}
		fmt.Fprintf(&text, "%d. [%s] %s\n", i+1, box, it.Text)
	}
	return strings.SplitAfter(strings.TrimSuffix(text.String(), "\n"), " ")
}

func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers
	}
	return data
}
