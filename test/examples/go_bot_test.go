package examples

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnstile"

	"turnstile/pkg/agent"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// goBot is a process of the bot, and its user's keyboard.
type goBot struct {
	*program.Process
	user io.Writer
}

func startGoBot(c conversation, place string) goBot {
	c.Helper()
	cmd := program.Command(c.T, program.Build(c.T, "turnstile/examples/go-bot"), []string{"REDIS_URL=" + redistest.URL(c.T)}, c.key, place)
	in, user, err := os.Pipe()
	expect.OK(c, err)
	cmd.Stdin = in
	c.Cleanup(func() { in.Close(); user.Close() })
	return goBot{program.Start(c.T, cmd), user}
}

func (b goBot) types(t *testing.T, line string) {
	t.Helper()
	_, err := io.WriteString(b.user, line+"\n")
	expect.OK(t, err)
}

// A user writes to the bot, approves a question, and gets each reply once, though the bot is killed.
func TestGoBot(t *testing.T) {
	t.Parallel()
	c := newConversation(t, agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		text := turn.Text()
		switch text {
		case "dare":
			answer, err := turn.Ask(ctx, agent.Question{Name: "jump", Text: "From here."})
			if err != nil {
				return agent.Result{}, err
			}
			text = string(answer)
		case "fail":
			return agent.Result{}, agent.ForUser(errors.New("exit 1"), "it is broken")
		}
		return agent.Result{Text: "re: " + text}, nil
	}), time.Minute)
	place := filepath.Join(t.TempDir(), "place")
	b := startGoBot(c, place)
	b.types(t, "hello")
	b.Output.Await(t, "re: hello\n")
	b.types(t, "/undoo")
	b.Output.Await(t, "This was not accepted: ")
	b.types(t, "dare")
	b.Output.Await(t, "May I jump? From here. Send /approve or /deny.\n")
	b.types(t, "/approve")
	b.Output.Await(t, "re: allow")
	b.types(t, "fail")
	b.Output.Await(t, "failed: it is broken\n")
	b.Kill()

	chat := c.client.Session(c.key)
	sent, err := chat.Send(c.ctx, turnstile.Message{Text: "meanwhile"})
	expect.OK(t, err)
	_, err = chat.Wait(c.ctx, sent.ID)
	expect.OK(t, err)
	b = startGoBot(c, place)
	b.Output.Await(t, "re: meanwhile\n")
	b.types(t, "//literally")
	b.Output.Await(t, "re: /literally\n")
	if said := b.Output.String(); strings.Contains(said, "hello") || strings.Count(said, "re: meanwhile") != 1 {
		t.Errorf("after its restart the bot said %q", said)
	}
	b.Signal(syscall.SIGINT)
	expect.Equal(t, "exit code", b.ExitCode(), 0)

	// A bot that has lost its place shows the conversation.
	b = startGoBot(c, filepath.Join(t.TempDir(), "another"))
	b.Output.Await(t, "user: hello\nassistant: re: hello\n")
	expect.OK(t, c.client.Operate(c.key).Erase(c.ctx))
	b.types(t, "again")
	b.Output.Await(t, "re: again\n")
}
