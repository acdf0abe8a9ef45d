// Package terminal lets a person at a terminal talk to one session: each line is a message, and
// the replies are printed as they arrive.
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
	"turnstile/internal/chat/receipt"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
)

// maxOpen is how many messages may wait for their end before the console stops reading.
const maxOpen = 1000

// Console is one person's console.
type Console struct {
	Client  *turnstile.Client
	Session string
	In      io.Reader
	Screen  *Screen

	Ephemeral bool // Redis ends with the program

	// Ended is called at the end of the input: with nil after Ctrl-D, or with the error of reading.
	// Optional.
	Ended func(error)

	waiting atomic.Int64 // messages that have not ended
	shown   string       // the last turn shown
}

// Run sends messages and prints replies until ctx ends; after the input's end it continues to
// print. It does not wait for a read of the input that is in progress at ctx's end.
func (c *Console) Run(ctx context.Context) {
	lines := make(chan string)
	go c.read(ctx, lines)
	messages := make(chan string, maxOpen)
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

// promptIfIdle shows the prompt if no message is open.
func (c *Console) promptIfIdle() {
	if c.waiting.Load() == 0 {
		c.Screen.Prompt()
	}
}

// say sends one line.
func (c *Console) say(ctx context.Context, line string, messages chan<- string) {
	text := strings.TrimSpace(line)
	if text == "" {
		return
	}
	r, err := receipt.Input(ctx, c.Client.Session(c.Session), turnstile.Message{Text: text})
	switch {
	case err != nil && ctx.Err() != nil:
	case err != nil:
		c.alert(redisconn.Explain(err))
	case r.Status == receipt.Answered:
		c.Screen.Line(r.Reply)
	case r.Status == receipt.Refused:
		c.alert("refused: " + r.Reason)
	default:
		if r.Status == receipt.Queued {
			c.note(fmt.Sprintf("waits in the queue, position %d", r.Position))
		}
		c.waiting.Add(1)
		select {
		case messages <- r.ID:
		case <-ctx.Done():
		}
	}
}

// follow prints the reply to one message. Messages of a session end one after the other anyway.
func (c *Console) follow(ctx context.Context, id string) {
	t := Teller{Story: Story{Message: id, Mine: true, Ephemeral: c.Ephemeral, Allow: "/approve", Deny: "/deny"}, Screen: c.Screen}
	chat := c.Client.Session(c.Session)
	end, err := receipt.Follow(ctx, chat, id, "", receipt.Shown(func(e session.Event) {
		switch {
		case e.Turn != "" && e.Turn == c.shown: // several messages may share a turn, which is shown once
		case e.Type == session.EventQueued: // the receipt has shown it
		default:
			t.See(e)
		}
	}))
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
