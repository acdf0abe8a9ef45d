package examples

import (
	"bytes"
	"context"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/redistest"
)

// program is the Go example as a process of its own.
type program struct {
	*testing.T
	ctx    context.Context
	cmd    *osexec.Cmd
	client *actors.Client
	key    string
	output bytes.Buffer // to be read when it has ended
	ended  chan error
}

func startProgram(t *testing.T) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	binary := filepath.Join(t.TempDir(), "custom-agent")
	build := osexec.CommandContext(ctx, "go", "build", "-o", binary, "./examples/custom-agent")
	build.Dir = example(t, "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	p := &program{
		T: t, ctx: ctx, client: actors.NewClient(redistest.New(t)), key: t.Name(),
		cmd: osexec.CommandContext(ctx, binary), ended: make(chan error, 1),
	}
	p.cmd.Env = []string{"REDIS_URL=" + redistest.URL(t)}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		p.ended <- <-p.ended // put back: a test may have taken it
	})
	return p
}

func (p *program) asks(text, want string) {
	p.Helper()
	end, err := ask(p.ctx, p.client, p.key, text)
	if err != nil {
		p.Fatal(err)
	}
	if end.Status != session.StatusDone || end.Reply != want {
		p.Errorf("%s: %s %q (%s), want %q", text, end.Status, end.Reply, end.Error, want)
	}
}

// say submits a message.
func (p *program) say(text string, mode session.Mode) string {
	p.Helper()
	receipt, err := p.client.Submit(p.ctx, p.key, session.Message{Text: text, Mode: mode})
	if err != nil {
		p.Fatal(err)
	}
	return receipt.ID
}

// long is a list whose reply takes some seconds.
func long() string { return strings.TrimSuffix(strings.Repeat("add sugar\n", 40), "\n") }

// follow waits for a message's end, and calls f once its reply has begun.
func (p *program) follow(id string, f func()) session.Outcome {
	p.Helper()
	begun := false
	end, err := p.client.Follow(p.ctx, p.key, id, func(e session.Event) {
		if !begun && e.Type == "text" {
			begun = true
			f()
		}
	})
	if err != nil {
		p.Fatal(err)
	}
	if !begun {
		p.Error("there was no text before the end")
	}
	return end
}

func TestCustomAgent(t *testing.T) {
	t.Parallel()
	p := startProgram(t)
	p.asks("list", `Nothing to do. Say "add milk", "done 1" or "list", one a line.`)
	p.asks("add milk\nadd fresh bread", "1. [ ] milk\n2. [ ] fresh bread")
	p.asks("done 1", "1. [x] milk\n2. [ ] fresh bread")
	if _, err := p.client.Command(p.ctx, p.key, "/undo", ""); err != nil {
		t.Error(err)
	}
	p.asks("list", "1. [ ] milk\n2. [ ] fresh bread")

	// A message that comes meanwhile joins the turn.
	steer := ""
	end := p.follow(p.say(long(), ""), func() { steer = p.say("done 2", session.ModeSteer) })
	if !strings.HasPrefix(end.Reply, "1. [ ] milk\n2. [x] fresh bread\n3. [ ] sugar") || !strings.HasSuffix(end.Reply, "42. [ ] sugar") {
		t.Errorf("reply %q", end.Reply)
	}
	if steered, err := p.client.Wait(p.ctx, p.key, steer); err != nil || steered.Turn != end.Turn {
		t.Errorf("the steer's turn is %q, not %q: %v", steered.Turn, end.Turn, err)
	}

	// What was stopped was not said.
	if end := p.follow(p.say(long(), ""), func() {
		if _, err := p.client.Command(p.ctx, p.key, "/stop", ""); err != nil {
			t.Error(err)
		}
	}); end.Status != session.StatusStopped {
		t.Errorf("after /stop it ended as %s", end.Status)
	}
	end, err := ask(p.ctx, p.client, p.key, "list")
	if err != nil || !strings.HasSuffix(end.Reply, "\n42. [ ] sugar") {
		t.Errorf("%q, %v", end.Reply, err)
	}
}

// The turn that runs at SIGTERM is finished, and then the program ends well.
func TestCustomAgentDrains(t *testing.T) {
	t.Parallel()
	p := startProgram(t)
	end := p.follow(p.say(long(), ""), func() {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	if end.Status != session.StatusDone || !strings.HasSuffix(end.Reply, "40. [ ] sugar") {
		t.Errorf("%+v", end)
	}
	err := <-p.ended
	p.ended <- err
	if err != nil || !strings.Contains(p.output.String(), "drained") {
		t.Errorf("%v\n%s", err, &p.output)
	}
}

func TestCustomAgentWithoutRedis(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{"redis://127.0.0.1:1": "set REDIS_URL", "http://x": "invalid URL scheme"} {
		cmd := osexec.CommandContext(t.Context(), "go", "run", "./examples/custom-agent")
		cmd.Dir = example(t, "..")
		cmd.Env = append(cmd.Environ(), "REDIS_URL="+url)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %s; want %q", url, err, out, want)
		}
	}
}
