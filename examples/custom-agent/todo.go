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

// todoAgent keeps a to-do list for each conversation. It stores nothing itself: the
// list is what the user has said so far, so it is the same on whatever worker the
// next turn runs, and follows /undo, /retry and /new.
//
// The zero value works. One todoAgent serves all conversations at once, so what
// belongs to a turn is in turn.
type todoAgent struct {
	pause time.Duration // between two words of the reply
}

var (
	_ agent.Agent     = todoAgent{}
	_ agent.Steerable = todoAgent{}
)

// Steerable says that messages may join a running turn: see turn.wait.
func (todoAgent) Steerable() bool { return true }

// Run is the whole interface.
func (a todoAgent) Run(ctx context.Context, in agent.Turn, emit func(agent.Event)) (agent.Result, error) {
	t := &turn{agent: a, in: in, emit: emit, list: replay(in)}
	for _, m := range in.Messages {
		t.do(m)
	}
	if err := t.reply(ctx); err != nil {
		return agent.Result{}, err
	}
	return agent.Result{}, nil // the reply is the text that was emitted
}

// replay is the list before the turn. The history of a turn that was cut off and is
// run again ends with what it had done, the user's words included: those are yet to
// be carried out.
func replay(in agent.Turn) (l list) {
	now := map[string]bool{}
	for _, m := range in.Messages {
		now[m.ID] = true
	}
	for _, e := range in.History {
		if e.Role == session.RoleUser && !now[e.Message] {
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
	in    agent.Turn
	emit  func(agent.Event)
	list  list
	calls int
	left  []string // words of the reply that were not said yet
}

// do carries out a message. Each change is a use of a tool: watchers see it, and it
// stands in the transcript.
func (t *turn) do(m agent.Message) {
	for line := range strings.Lines(m.Text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		t.calls++
		id := strconv.Itoa(t.calls)
		t.emit(agent.Event{Type: agent.EventToolStart, Name: "todo", CallID: id, Input: encode(line)})
		end := agent.Event{Type: agent.EventToolEnd, Name: "todo", CallID: id}
		if t.list.apply(line) {
			end.Output = encode(t.list)
		} else {
			end.Error = help
		}
		t.emit(end)
	}
	t.left = words(t.list)
}

// reply says the list, word by word.
func (t *turn) reply(ctx context.Context) error {
	for len(t.left) > 0 {
		t.emit(agent.Event{Type: agent.EventText, Text: t.left[0]})
		t.left = t.left[1:]
		if err := t.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// wait is the boundary between two words: here the turn can be interrupted, and a
// message that came meanwhile joins it. The reply then begins anew.
func (t *turn) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx) // what was emitted until now is kept
	case s := <-t.in.Steers:
		s.Accept() // before acting on it: it is part of this turn from here on
		t.do(s.Message)
		return nil
	case <-time.After(t.agent.pause):
		return nil
	}
}

// item is one thing to be done.
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

// words is the list as it is said.
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
