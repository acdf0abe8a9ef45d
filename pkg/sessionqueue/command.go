package sessionqueue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

const (
	stopBatch     = 500
	commandEvents = 1000 // the cap of the event stream, for events of commands
)

// command is carried out by the sender's library: it takes no sentinel.
type command struct {
	name, help string
	run        func(c *Client, ctx context.Context, sessionKey string) (string, error)
}

func commands() []command {
	return []command{
		{"/help", "lists the commands", (*Client).help},
		{"/status", "tells what the session does", (*Client).status},
		{"/stop", "ends the running turn and drops what waits behind it", (*Client).stop},
	}
}

// parseCommand finds a command: the first word of a one-line text.
func parseCommand(text string) (name string, ok bool) {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "\n") {
		return "", false
	}
	name, _, _ = strings.Cut(text, " ")
	return name, slices.ContainsFunc(commands(), func(c command) bool { return c.name == name })
}

// Command carries out a slash command and answers what the user is to read.
func (c *Client) Command(ctx context.Context, sessionKey, name string) (string, error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return "", err
	}
	for _, cmd := range commands() {
		if cmd.name == name {
			return cmd.run(c, ctx, sessionKey)
		}
	}
	return "", fmt.Errorf("%w command %q: /help lists them", session.ErrInvalid, name)
}

func (c *Client) help(context.Context, string) (string, error) {
	var b strings.Builder
	for _, cmd := range commands() {
		fmt.Fprintf(&b, "%-8s %s\n", cmd.name, cmd.help)
	}
	b.WriteString("A message that is to begin with a slash is written with two.")
	return b.String(), nil
}

func (c *Client) status(ctx context.Context, sessionKey string) (string, error) {
	s, err := c.Session(ctx, sessionKey)
	if err != nil {
		return "", err
	}
	waiting := fmt.Sprintf("%d waiting", s.Pending)
	switch s.Phase {
	case PhaseIdle:
		if s.Pending == 0 {
			return "Idle: nothing runs, nothing waits.", nil
		}
		return "Nothing runs yet, " + waiting + ".", nil
	case phaseStarting:
		return "The agent is starting up, " + waiting + ".", nil
	}
	return fmt.Sprintf("A turn has been running for %s, %s.", s.Since.Round(time.Second), waiting), nil
}

func (c *Client) stop(ctx context.Context, sessionKey string) (string, error) {
	s, err := c.Stop(ctx, sessionKey)
	if err != nil {
		return "", err
	}
	var dropped string
	if s.Dropped > 0 {
		dropped = fmt.Sprintf(" %d waiting message(s) were dropped; they are in the archive.", s.Dropped)
	}
	switch s.Phase {
	case phaseStarting:
		return "The agent is still starting up; it will be stopped before it runs." + dropped, nil
	case phaseRunning:
		return "Stopping the running turn." + dropped, nil
	}
	if s.Dropped > 0 {
		return "Nothing is running." + dropped, nil
	}
	return "Nothing is running, there is nothing to stop.", nil
}

// Stopped is what Stop found.
type Stopped struct {
	Phase   string // of the turn that was told to end: idle, starting or running
	Fence   int64  // that turn
	Dropped int    // messages that waited and are now archived as "stopped by user"
}

// Stop ends the turn that runs now, and archives the messages that wait now. The
// turn that it found is named by its fence: one that starts later is not meant.
func (c *Client) Stop(ctx context.Context, sessionKey string) (Stopped, error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return Stopped{}, err
	}
	var s Stopped
	k := rediskey.For(sessionKey)
	for last, first := "", true; first || last != ""; first = false {
		reply, err := run(ctx, c.rdb, stopScript, keys(sessionKey, "", time.Now()),
			k.TaskPrefix(), session.IDPrefix(sessionKey), stopBatch, last, commandEvents)
		if err != nil {
			return s, fmt.Errorf("stop %s: %w", sessionKey, err)
		}
		if first {
			s.Phase, s.Fence = reply.str(0), reply.int(1)
		}
		s.Dropped += int(reply.int(2))
		last = reply.str(3)
	}
	return s, nil
}

// Rotate gives the session another session id: the next message begins another
// transcript under the same key, queue and lock, and a turn that is running
// finishes into the old one. If old is not empty, only that session id is
// replaced. It answers the session id that holds now.
func (c *Client) Rotate(ctx context.Context, sessionKey, old string) (sessionID string, err error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return "", err
	}
	reply, err := run(ctx, c.rdb, rotateScript, keys(sessionKey, "", time.Now()), rediskey.For(sessionKey).TaskPrefix(), newSessionID(), old)
	if err != nil {
		return "", fmt.Errorf("rotate %s: %w", sessionKey, err)
	}
	return reply.str(0), nil
}
