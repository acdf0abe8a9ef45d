package acp

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

// talking is a turn that succeeds, after which the agent writes without end.
func talking(stream, path string) string {
	return "pid\ndone\npause\nbabble " + stream + " " + path
}

// taken checks how much was read of an agent that was interrupted for its output.
func taken(t *testing.T, path string) {
	t.Helper()
	const slack = 2 << 20 // the pipe's content, one read of it, and input before the turn was over here
	text, err := os.ReadFile(path)
	expect.OK(t, err)
	n, err := strconv.Atoi(string(text))
	expect.OK(t, err)
	const uncounted = 1 << 10 // the last line may be read before its writer has counted it
	if n < 4<<20-uncounted || n > 4<<20+slack {
		t.Errorf("%d bytes were taken, want 4 MiB and at most %d more", n, slack)
	}
}

// logged is a log that a test reads.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// An agent that writes without end while it has no turn is ended, and costs nothing more.
func TestAnAgentThatTalksBetweenTurns(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{"stdout", "stderr"} {
		t.Run(stream, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "taken")
			a, log := acting(t), &logged{}
			a.config.Logger = slog.New(slog.NewTextHandler(log, nil))
			w := warmed(t, a, turnWith(t))
			_, err := runWarm(t, w, turnWith(t, talking(stream, path)))
			expect.OK(t, err)
			select {
			case <-w.Done():
			case <-time.After(patience):
				t.Fatal("the agent goes on")
			}
			taken(t, path)
			_, err = runWarm(t, w, turnWith(t, "text a"))
			failed(t, err, true, "the agent ended between two turns: it was ended, for it wrote more than 4 MiB between two turns")
			if n := strings.Count(log.String(), `level=WARN msg="the agent wrote too much between two turns and is ended: the session's next turn starts another" session=`); n != 1 {
				t.Errorf("%d lines of the log say so:\n%s", n, log)
			}
		})
	}
}

// The session's next turn has another agent, and needs no second attempt for that.
func TestATurnAfterTheTalk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "taken")
	client, _ := startWorker(t, acting(t), worker.Config{MaxAttempts: 1, AgentTimeout: patience})
	first := pidOf(t, say(t, client, talking("stdout", path)))
	expect.Soon(t, "the end of the agent that talks", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
	taken(t, path)
	o := say(t, client, "pid")
	if o.Status != session.StatusDone || o.Reply == fmt.Sprint(first) || alive(first) {
		t.Errorf("%+v after process %d, which is alive: %v", o, first, alive(first))
	}
}
