// Package echo is an agent without a model, for demos, tests and benchmarks. It replies with the
// turn's text: the reply to "hello" is "echo: hello". Several messages are joined by blank lines. A
// note becomes a thought, which is shown and not kept.
//
// Directives at the beginning of a message, separated by blanks, make it behave like a real agent.
// It carries them out in their order, before the reply, and leaves them out of the reply: "sleep=4s
// tool=search hello" takes four seconds, reports a tool and replies "echo: hello".
//
//	sleep=4s       take time
//	tool=NAME      use a tool: tool_start and tool_end
//	tool=NAME:2s   the same, and the tool takes time
//	fail=final     fail for good
//	fail=retry     fail with an error that may be retried
//	fail=retry:2   the same, at attempts 1 and 2 only
//	panic=1        panic
//	stream=20      emit the reply in 20 pieces, or in as many as it has characters
//	tick=100ms     wait this long after each piece but the last
//	title=My_title propose a title; _ stands for a blank
//	ask=NAME       ask for permission to use a tool, and use it if allowed
//	usage=1200:350 report that many tokens as read and written
//	steer=off      take no steers from here on
//
// It takes steers while it sleeps or uses a tool. The reply then ends in a blank line and "steered:
// TEXT" for each of them. Directives in a steer are text.
//
// The text begins at the first word that is not a directive. A directive with a bad value is a
// final error. Whatever takes time ends with the turn's context.
package echo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

const prefix = "echo: "

// Agent replies with the text of its turn.
type Agent struct{}

// New returns an echo agent.
func New() *Agent { return &Agent{} }

// Traits says that there is nothing to start, and that running turns take steers.
func (*Agent) Traits() agent.Traits { return agent.Traits{Immediate: true, Steerable: true} }

// Run carries out the directives and replies.
func (*Agent) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	said := *turn // the reply repeats it
	if said.Note != "" {
		turn.Emit(agent.Event{Type: session.EventThought, Text: said.Note})
		said.Note = ""
	}
	plain := true
	for i := range said.Messages {
		if isDirective(said.Messages[i].Text) {
			plain = false
		}
	}
	if plain {
		reply := prefix + said.Text()
		turn.Emit(agent.Event{Type: session.EventText, Text: reply})
		return agent.Result{Text: reply}, nil
	}
	p := play{turn: turn, pieces: 1, steers: turn.Steers(), who: turn.Speakers()}
	said.Messages = slices.Clone(turn.Messages)
	for i := range said.Messages {
		text, err := p.directives(ctx, said.Messages[i].Text)
		if err != nil {
			return agent.Result{}, err
		}
		said.Messages[i].Text = text
	}
	reply := prefix + said.Text() + p.steered
	if err := p.stream(ctx, reply); err != nil {
		return agent.Result{}, err
	}
	return agent.Result{Text: reply}, nil
}

// pause waits and takes steers, unless the turn is cancelled first.
func (p *play) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case s := <-p.steers:
			s.Accept()
			p.steered += "\n\nsteered: " + p.who.Said(s.Message.Text, s.Message.Meta)
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("echo: interrupted: %w", context.Cause(ctx))
		}
	}
}

const blanks = " \t\r\n"

// cutWord splits off the first word. The rest begins with the next one.
func cutWord(text string) (word, rest string) {
	text = strings.TrimLeft(text, blanks)
	if i := strings.IndexAny(text, blanks); i >= 0 {
		return text[:i], strings.TrimLeft(text[i:], blanks)
	}
	return text, ""
}
