// Package terminal lets a person at a terminal talk to one session: each line is
// a message, and the answers are printed as they come.
package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"turnstile"
	"turnstile/internal/redisconn"
	"turnstile/pkg/session"
)

// unanswered is how many messages may be under way before the console reads on.
const unanswered = 1000

// Console is one person's conversation.
type Console struct {
	Client  *turnstile.Client
	Session string
	In      io.Reader
	Screen  *Screen

	Ephemeral bool // nothing is kept when the program ends

	// Ended is called when nothing more will be typed: with nil at the end of the
	// input (Ctrl-D), or with what went wrong. Optional.
	Ended func(error)

	waiting atomic.Int64 // messages that were not answered yet
	shown   string       // the turn that was shown last
}

// Run takes messages and prints answers until ctx ends; after the input's end it
// goes on printing. A read of the input that is under way then stays behind.
func (c *Console) Run(ctx context.Context) {
	lines := make(chan string)
	go c.read(ctx, lines)
	messages := make(chan string, unanswered)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for id := range messages {
			c.follow(ctx, id)
		}
	}()
	defer func() {
		close(messages)
		<-done
	}()
	c.Screen.Prompt()
	for {
		select {
		case <-ctx.Done():
			return
		case line := <-lines:
			c.Screen.Typed()
			c.say(ctx, line, messages)
			c.promptIfIdle()
		}
	}
}

func (c *Console) read(ctx context.Context, lines chan<- string) {
	in := bufio.NewReader(c.In)
	for {
		line, err := in.ReadString('\n')
		if strings.TrimSpace(line) != "" || err == nil {
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			if c.Ended != nil && ctx.Err() == nil {
				c.Ended(err)
			}
			return
		}
	}
}

// promptIfIdle asks for the next line once all is answered.
func (c *Console) promptIfIdle() {
	if c.waiting.Load() == 0 {
		c.Screen.Prompt()
	}
}

// say puts one line in.
func (c *Console) say(ctx context.Context, line string, messages chan<- string) {
	text := strings.TrimSpace(line)
	if text == "" {
		return
	}
	r, err := c.Client.Submit(ctx, c.Session, session.Message{ID: turnstile.NewMessageID(), Text: text})
	switch {
	case err != nil && ctx.Err() != nil:
	case err != nil:
		c.alert(redisconn.Explain(err))
	case r.Status == turnstile.Answered:
		c.Screen.Line(r.Reply)
	case r.Status == turnstile.Refused:
		c.alert("refused: " + r.Reason)
	default:
		if r.Status == turnstile.Queued {
			c.note(fmt.Sprintf("waits in line, position %d", r.Position))
		}
		c.waiting.Add(1)
		select {
		case messages <- r.ID:
		case <-ctx.Done():
		}
	}
}

// follow prints the answer to one message. Those of a session come one after the
// other anyway.
func (c *Console) follow(ctx context.Context, id string) {
	t := Teller{Story: Story{Message: id, Mine: true, Ephemeral: c.Ephemeral, Allow: "/approve", Deny: "/deny"}, Screen: c.Screen}
	end, err := c.Client.Follow(ctx, c.Session, id, func(e session.Event) {
		switch {
		case e.Turn != "" && e.Turn == c.shown: // several messages may be one turn, which is shown once
		case e.Type == session.EventQueued: // the receipt has told
		default:
			t.See(e)
		}
	})
	shown := end.Turn != "" && end.Turn == c.shown
	if shown {
		end.Usage = nil
	}
	if err == nil {
		t.End(end)
	} else {
		t.Leave()
	}
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		c.alert(redisconn.Explain(err))
	case end.Status != session.StatusDone && !shown:
		c.alert(Ending(end))
	}
	c.shown = end.Turn
	if c.waiting.Add(-1) == 0 {
		c.Screen.Prompt()
	}
}

func (c *Console) note(text string)  { c.Screen.Tell(Line{text, Aside}) }
func (c *Console) alert(text string) { c.Screen.Tell(Line{text, Alert}) }
