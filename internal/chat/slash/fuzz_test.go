package slash

import (
	"context"
	"errors"
	"strings"
	"testing"

	"turnstile/internal/protocol/agents"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

// calls counts the calls that change something.
type calls struct{ n int }

func (*calls) Info(context.Context) (session.Info, error) { return session.Info{}, nil }
func (*calls) Tail(_ context.Context, n int) ([]session.Entry, error) {
	if n < 1 || n > historyMost {
		panic("a number of entries out of bounds")
	}
	return nil, nil
}
func (c *calls) Stop(context.Context) (session.Stopped, error) {
	c.n++
	return session.Stopped{}, nil
}
func (c *calls) NewConversation(_ context.Context, agent string) error {
	c.n++
	if agent != "" && agents.ValidateName(agent) != nil {
		panic("a wrong agent")
	}
	return nil
}
func (*calls) Agents(context.Context) ([]string, error) { return []string{"default", "support"}, nil }
func (c *calls) Undo(context.Context) (session.Undone, error) {
	c.n++
	return session.Undone{}, nil
}
func (c *calls) Retry(context.Context) (session.Undone, error) {
	c.n++
	return session.Undone{}, nil
}
func (c *calls) SetTitle(context.Context, string) error { c.n++; return nil }
func (c *calls) Rerun(context.Context) (int, error)     { c.n++; return 0, nil }
func (*calls) HasWorker(context.Context) (bool, error)  { return true, nil }
func (*calls) Paused(context.Context) (bool, error)     { return false, nil }
func (c *calls) SetQueue(_ context.Context, s session.QueueSettings) error {
	c.n++
	if s.Cap < 0 || s.Cap > wire.MaxQueueCap || s.Debounce < 0 {
		panic("settings out of bounds")
	}
	return nil
}
func (c *calls) DecideNumber(_ context.Context, number int, d session.Decision) (session.Question, error) {
	c.n++
	if number < 0 || d == "" {
		panic("a decision on nothing")
	}
	return session.Question{Number: number}, nil
}

// A user's text is a command or not, a refused command does nothing, and no command does more than one
// thing. A text that is no command has no effect of one.
func FuzzCommand(f *testing.F) {
	for _, text := range []string{"/stop", " /stop\n", "/stop now", "/queue collect debounce:0.5s cap:25 drop:old", "/queue reset", "/approve 3 always", "/approve -1", "/deny 99999999999999999999",
		"/history 1001", "/title \u202e", "/steer", "/steer left", "//stop", "/rest api?", "/stop\nnow", "/\xff", "/status\u00a0", "/new\tx", "/agent", "/agent support", "/agent nobody", "/agent \u202e"} {
		f.Add(text)
	}
	f.Add("/queue " + strings.Repeat("x ", 5000))
	f.Fuzz(func(t *testing.T, text string) {
		cmd, args, ok := Parse(text)
		if reply, hint := Suggest(text); hint && ok {
			t.Errorf("%q is a command, and %q", text, reply)
		}
		if !ok {
			return
		}
		if !strings.HasPrefix(strings.TrimSpace(text), cmd.Name) || strings.Contains(strings.TrimSpace(text), "\n") {
			t.Errorf("%q is %s", text, cmd.Name)
		}
		if cmd.IsMessage(args) {
			return
		}
		var c calls
		reply, err := cmd.Run(t.Context(), &c, args)
		if err != nil && !errors.Is(err, session.ErrInvalid) || c.n > 1 || err != nil && c.n > 0 {
			t.Errorf("%q made %d calls: %q, %v", text, c.n, reply, err)
		}
		if len(reply) > 6000+len(text) {
			t.Errorf("%q has a reply of %d bytes", text, len(reply))
		}
	})
}
