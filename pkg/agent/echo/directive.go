package echo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// play is one turn with directives.
type play struct {
	turn   *agent.Turn
	calls  int
	pieces int
	tick   time.Duration
	who    *agent.Speakers

	steers  <-chan agent.Steer // nil: no steer is taken
	steered string             // the taken steers' part of the reply
}

const longest = len("stream=") // of the directives' names

// isDirective reports whether text begins with a directive.
func isDirective(text string) bool {
	text = strings.TrimLeft(text, blanks)
	name, _, ok := strings.Cut(text[:min(len(text), longest)], "=")
	if !ok {
		return false
	}
	switch name {
	case "sleep", "tool", "fail", "panic", "stream", "tick", "title", "steer", "ask", "usage":
		return true
	}
	return false
}

// directives carries out the directives at the beginning of text and returns the rest.
func (p *play) directives(ctx context.Context, text string) (string, error) {
	for isDirective(text) {
		word, rest := cutWord(text)
		name, value, _ := strings.Cut(word, "=")
		if err := p.do(ctx, name, value); err != nil {
			return "", err
		}
		text = rest
	}
	return text, nil
}

func (p *play) do(ctx context.Context, name, value string) error {
	bad := func(want string) error { return fmt.Errorf("echo: %s=%s: want %s", name, value, want) }
	switch name {
	case "sleep":
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return bad("a duration such as 4s")
		}
		return p.pause(ctx, d)
	case "tool":
		if value == "" {
			return bad("a name")
		}
		return p.tool(ctx, value)
	case "ask":
		if value == "" {
			return bad("a name")
		}
		return p.ask(ctx, value)
	case "usage":
		var in, out int64
		if n, err := fmt.Sscanf(value, "%d:%d", &in, &out); n != 2 || err != nil || in < 0 || out < 0 {
			return bad("tokens in and out such as 1200:350")
		}
		p.turn.Emit(agent.Event{Type: session.EventUsage, Usage: &session.Usage{Model: "echo", InputTokens: in, OutputTokens: out}})
	case "fail":
		return p.fail(value, bad)
	case "panic":
		panic("echo: told to panic: " + value)
	case "stream":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return bad("a number of pieces")
		}
		p.pieces = n
	case "tick":
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return bad("a duration such as 100ms")
		}
		p.tick = d
	case "title":
		title := strings.ReplaceAll(value, "_", " ")
		if strings.TrimSpace(title) == "" {
			return bad("a title, with _ for its blanks")
		}
		p.turn.Emit(agent.Event{Type: session.EventTitle, Text: title})
	case "steer":
		if value != "off" {
			return bad("off")
		}
		p.steers = nil
	}
	return nil
}

// ask asks for permission to use a tool, and uses it if the user allows it.
func (p *play) ask(ctx context.Context, name string) error {
	if p.turn.Host.Ask == nil {
		return errors.New("echo: nobody can be asked")
	}
	decision, err := p.turn.Ask(ctx, agent.Question{Name: name, Input: json.RawMessage(`{}`)})
	if err != nil {
		return fmt.Errorf("echo: interrupted: %w", err)
	}
	if decision.Allowed() {
		return p.tool(ctx, name)
	}
	p.calls++
	id := "echo-" + strconv.Itoa(p.calls)
	p.turn.Emit(agent.Event{Type: session.EventToolStart, Name: name, CallID: id, Input: json.RawMessage(`{}`)})
	p.turn.Emit(agent.Event{Type: session.EventToolEnd, Name: name, CallID: id, Error: "the permission was not given"})
	return nil
}

func (p *play) tool(ctx context.Context, name string) error {
	var takes time.Duration
	if i := strings.LastIndexByte(name, ':'); i > 0 {
		if d, err := time.ParseDuration(name[i+1:]); err == nil && d >= 0 {
			name, takes = name[:i], d
		}
	}
	p.calls++
	id := "echo-" + strconv.Itoa(p.calls)
	p.turn.Emit(agent.Event{Type: session.EventToolStart, Name: name, CallID: id, Input: json.RawMessage(`{}`)})
	if takes > 0 {
		if err := p.pause(ctx, takes); err != nil {
			return err
		}
	}
	p.turn.Emit(agent.Event{Type: session.EventToolEnd, Name: name, CallID: id, Output: json.RawMessage(`"ok"`)})
	return nil
}

func (p *play) fail(value string, bad func(string) error) error {
	kind, upTo, limited := strings.Cut(value, ":")
	switch {
	case value == "final":
		return errors.New("echo: told to fail")
	case kind == "retry" && !limited:
		return agent.Retryable(errors.New("echo: told to fail, may be tried again"))
	case kind == "retry":
		n, err := strconv.Atoi(upTo)
		if err != nil || n < 1 {
			return bad("final, retry or retry:N")
		}
		if p.turn.Attempt > n {
			return nil
		}
		return agent.Retryable(fmt.Errorf("echo: told to fail at attempt %d of %d", p.turn.Attempt, n))
	}
	return bad("final, retry or retry:N")
}

// stream emits the reply in equal pieces of whole characters.
func (p *play) stream(ctx context.Context, reply string) error {
	p.steers = nil // the reply is complete
	runes := utf8.RuneCountInString(reply)
	pieces := min(p.pieces, runes)
	sent := 0
	for i := 1; i <= pieces; i++ {
		end := 0
		for n := runes*i/pieces - runes*(i-1)/pieces; n > 0; n-- {
			_, size := utf8.DecodeRuneInString(reply[sent+end:])
			end += size
		}
		p.turn.Emit(agent.Event{Type: session.EventText, Text: reply[sent : sent+end]})
		sent += end
		if p.tick > 0 && i < pieces {
			if err := p.pause(ctx, p.tick); err != nil {
				return err
			}
		}
	}
	return nil
}
