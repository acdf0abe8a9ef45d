package acp

import (
	"context"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	acpsdk "github.com/coder/acp-go-sdk"

	"turnstile/internal/process/command"
	"turnstile/internal/process/guardian"
)

const (
	maxTerminals   = 16      // of a turn, at a time
	maxScreen      = 4 << 20 // bytes of output that one keeps at most
	standardScreen = 1 << 20 // if the agent does not set a limit
)

// terminals are the commands that the agent has started in a turn.
type terminals struct {
	mu   sync.Mutex
	last int
	all  map[string]*terminal
	over bool
}

// terminal is one command and the end of its output.
type terminal struct {
	*command.Command
	ended chan struct{} // closed when it is gone and all its output is read

	mu     sync.Mutex
	limit  int
	screen []byte
	cut    bool
	status guardian.Status // written before ended is closed
}

// bothOutputs runs a command with its stdout and stderr in one. The shell parses nothing that comes
// from the agent.
var bothOutputs = []string{"/bin/sh", "-c", `exec "$0" "$@" 2>&1`}

func (t *turn) createTerminal(p acpsdk.CreateTerminalRequest) (any, error) {
	dir := t.dir
	if p.Cwd != nil && *p.Cwd != "" {
		var err error
		if dir, err = directoryInside(t.dir, *p.Cwd); err != nil {
			return nil, err
		}
	}
	if p.Command == "" {
		return nil, refuse(codeInvalidParams, "the command is empty")
	}
	words := append([]string{p.Command}, p.Args...)
	for _, v := range p.Env {
		if v.Name == "" || strings.Contains(v.Name, "=") {
			return nil, refuse(codeInvalidParams, "%.100q is no name of a variable", v.Name)
		}
		words = append(words, v.Name, v.Value)
	}
	if slices.ContainsFunc(words, func(word string) bool { return strings.IndexByte(word, 0) >= 0 }) {
		return nil, refuse(codeInvalidParams, "there is a zero byte in the command")
	}
	program := p.Command
	if strings.Contains(program, "/") && !filepath.IsAbs(program) {
		program = filepath.Join(dir, program)
	}
	path, err := osexec.LookPath(program)
	if err != nil {
		return nil, refuse(codeNotFound, "%v (no shell runs it: the command is a program, its arguments are apart)", err)
	}
	chosen := make([]string, len(p.Env))
	for i, v := range p.Env {
		chosen[i] = v.Name + "=" + v.Value
	}
	limit := standardScreen
	if p.OutputByteLimit != nil {
		limit = min(max(*p.OutputByteLimit, 0), maxScreen)
	}
	spec, err := t.isolator.Apply(command.Spec{
		Argv: append(append(slices.Clone(bothOutputs), path), p.Args...), Dir: dir, Env: t.env.ForSession(os.Environ(), t.session), Chosen: chosen, Lease: t.host.Lease, Logger: t.logger,
	}, t.session)
	if err != nil {
		return nil, err
	}
	return t.terminals.start(spec, limit)
}

// directoryInside is an agent's directory as a path in dir. No link may lead out of it.
func directoryInside(dir, path string) (string, error) {
	rel, err := inside(dir, path)
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	info, err := root.Stat(rel)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%.200q is not a directory", path)
	}
	return filepath.Join(dir, rel), nil
}

func (s *terminals) start(spec command.Spec, limit int) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || len(s.all) >= maxTerminals {
		return nil, refuse(codeInvalid, "the turn is over, or has %d terminals: release one first", maxTerminals)
	}
	c, err := command.Start(spec)
	if err != nil {
		return nil, err
	}
	_ = c.Stdin.Close() // nothing is typed
	t := &terminal{Command: c, limit: limit, ended: make(chan struct{})}
	s.last++
	id := "terminal-" + strconv.Itoa(s.last)
	if s.all == nil {
		s.all = map[string]*terminal{}
	}
	s.all[id] = t
	var reader sync.WaitGroup
	reader.Go(func() { _, _ = io.Copy(t, c.Stdout) })
	go func() {
		t.status = c.Wait()
		reader.Wait()
		if err := t.status.StartError; err != nil {
			_, _ = t.Write([]byte("could not be started: " + err.Error() + "\n"))
		}
		c.CloseOutput()
		close(t.ended)
	}()
	return acpsdk.CreateTerminalResponse{TerminalId: id}, nil
}

// end kills all and waits until they are gone.
func (s *terminals) end() {
	s.mu.Lock()
	s.over = true
	all := s.all
	s.all = nil
	s.mu.Unlock()
	for _, t := range all {
		t.Kill()
	}
	for _, t := range all {
		<-t.ended
	}
}

// do carries out a request for a terminal that exists.
func (s *terminals) do(ctx context.Context, method, id string) (any, error) {
	s.mu.Lock()
	t := s.all[id]
	s.mu.Unlock()
	if t == nil {
		return nil, refuse(codeNotFound, "there is no terminal %.100q", id)
	}
	switch method {
	case acpsdk.ClientMethodTerminalOutput:
		return t.output(), nil
	case acpsdk.ClientMethodTerminalWaitForExit:
		select {
		case <-t.ended:
			exit := t.exit()
			return acpsdk.WaitForTerminalExitResponse{ExitCode: exit.ExitCode, Signal: exit.Signal}, nil
		case <-ctx.Done():
			return nil, refuse(codeInvalid, "the turn was cancelled")
		}
	case acpsdk.ClientMethodTerminalKill:
		t.Kill()
		<-t.ended
		return acpsdk.KillTerminalResponse{}, nil
	case acpsdk.ClientMethodTerminalRelease:
		t.Kill()
		<-t.ended
		s.mu.Lock()
		delete(s.all, id)
		s.mu.Unlock()
		return acpsdk.ReleaseTerminalResponse{}, nil
	}
	return nil, refuse(codeNoMethod, "there is no method %.100q", method)
}

// Write takes the command's output.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.screen = append(t.screen, p...)
	if len(t.screen) > 2*t.limit+4096 { // trimming at every byte would be slow
		t.trim()
	}
	return len(p), nil
}

// trim keeps the end of the output. t.mu is held.
func (t *terminal) trim() {
	if over := len(t.screen) - t.limit; over > 0 {
		t.cut = true
		t.screen = append(t.screen[:0], t.screen[over:]...)
	}
}

func (t *terminal) output() acpsdk.TerminalOutputResponse {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trim()
	text := t.screen
	if t.cut {
		for i := 0; i < utf8.UTFMax-1 && len(text) > 0 && !utf8.RuneStart(text[0]); i++ {
			text = text[1:]
		}
	}
	response := acpsdk.TerminalOutputResponse{Output: strings.ToValidUTF8(string(text), "\uFFFD"), Truncated: t.cut}
	select {
	case <-t.ended:
		exit := t.exit()
		response.ExitStatus = &exit
	default:
	}
	return response
}

// exit is how the command ended. For one that could not be started it is the code that a shell
// uses, never that of a success.
func (t *terminal) exit() acpsdk.TerminalExitStatus {
	code, signal := t.status.Code, t.status.Signal
	switch {
	case t.status.StartError != nil:
		code = 127
	case t.status.GuardianDied, t.status.LeaseExpired:
		signal = syscall.SIGKILL
	}
	if signal != 0 {
		name := signal.String()
		return acpsdk.TerminalExitStatus{Signal: &name}
	}
	return acpsdk.TerminalExitStatus{ExitCode: &code}
}
