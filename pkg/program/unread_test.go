package program_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/program"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	programs "turnstile/test/program"
	"turnstile/test/redistest"
	"turnstile/test/watched"
)

// childVariable makes the test binary a worker with the agent verbose.
const childVariable = "TEST_OF_PROGRAM"

// verbose fails with an error that is long in the log.
type verbose struct{}

func (verbose) Run(context.Context, *agent.Turn) (agent.Result, error) {
	return agent.Result{}, errors.New(strings.Repeat("no ", 5000))
}

func runChild() {
	program.Init()
	program.Exit(program.Run(context.Background(), verbose{}))
}

// Nobody reads stdout and stderr of a program: its turns end, and so does the program.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setting string
		turns   int
		signal  syscall.Signal // 0: it ends by itself
		code    int
	}{
		"wrong setting": {"TURNSTILE_CONCURRENCY=many", 0, 0, 2},
		"SIGTERM":       {"TURNSTILE_CONCURRENCY=1", 200, syscall.SIGTERM, 0},
		"SIGHUP":        {"TURNSTILE_CONCURRENCY=1", 1, syscall.SIGHUP, 75},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			self, err := os.Executable()
			expect.OK(t, err)
			_, w := watched.FullPipe(t)
			cmd := programs.Command(t, self, []string{childVariable + "=1", "REDIS_URL=" + redistest.URL(t), c.setting})
			cmd.Stdout, cmd.Stderr = w, w
			p := programs.Start(t, cmd)
			ctx, cancel := context.WithTimeout(t.Context(), expect.Patience)
			defer cancel()
			client := actors.NewClient(redistest.New(t)).Session("a")
			for i := range c.turns {
				sent, err := client.Send(ctx, turnstile.Message{ID: fmt.Sprint(i), Text: "hello"})
				expect.OK(t, err)
				end, err := client.Wait(ctx, sent.ID)
				expect.OK(t, err)
				expect.Equal(t, "status", end.Status, session.StatusFailed)
			}
			if c.signal != 0 {
				p.Signal(c.signal)
			}
			expect.Equal(t, "exit code", p.ExitCode(), c.code)
		})
	}
}
