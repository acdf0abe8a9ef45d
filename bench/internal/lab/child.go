package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// childVariable makes the benchmark's binary a child. Its value is the job.
const childVariable = "TURNSTILE_BENCH_CHILD"

// Child is a process of the benchmark's binary, or of another program that reads its job and obeys
// words in the same way. Parent and child exchange lines of JSON.
type Child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// Spawn starts a child. Its main runs the job with RunJob. It ends with ctx.
func Spawn(ctx context.Context, job any) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return SpawnProgram(exec.CommandContext(ctx, self), job)
}

// SpawnProgram starts a command as a child. Its errors go to this process's, unless they go elsewhere.
func SpawnProgram(cmd *exec.Cmd, job any) (*Child, error) {
	text, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	c := &Child{cmd: cmd}
	c.cmd.Env = append(c.cmd.Environ(), childVariable+"="+string(text))
	if c.cmd.Stderr == nil {
		c.cmd.Stderr = os.Stderr
	}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = json.NewDecoder(out)
	return c, c.cmd.Start()
}

// Call sends the child a word and reads its response.
func (c *Child) Call(word string, response any) error {
	if _, err := fmt.Fprintln(c.in, word); err != nil {
		return err
	}
	return c.Read(response)
}

// Read reads the child's next line.
func (c *Child) Read(into any) error {
	if err := c.out.Decode(into); err != nil {
		return fmt.Errorf("child: %w", err)
	}
	return nil
}

// Kill is kill -9. It may be called again.
func (c *Child) Kill() { c.Signal(os.Kill) }

// Signal sends the child a signal, if it still runs.
func (c *Child) Signal(s os.Signal) { _ = c.cmd.Process.Signal(s) }

// End kills the child and waits for it.
func (c *Child) End() {
	c.Kill()
	_ = c.in.Close()
	_ = c.cmd.Wait()
}

// Close lets the child end by itself, as after the end of its parent, and waits for it.
func (c *Child) Close() {
	_ = c.in.Close()
	_ = c.cmd.Wait()
}

// RunJob runs the job if this process is a child, and reports whether it is one. A job that fails
// ends the process.
func RunJob[J any](title string, run func(J, context.Context) error) (child bool) {
	text, child := os.LookupEnv(childVariable)
	if !child {
		return false
	}
	var job J
	err := json.Unmarshal([]byte(text), &job)
	if err == nil {
		err = run(job, context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, title+": child:", err)
		os.Exit(1)
	}
	return true
}

// Say sends the parent a line.
func Say(what any) error { return json.NewEncoder(os.Stdout).Encode(what) }

// Obey calls answer for each word of the parent until the parent ends, so no child outlives it.
func Obey(answer func(word string) any) error {
	words := bufio.NewScanner(os.Stdin)
	for words.Scan() {
		if err := Say(answer(words.Text())); err != nil {
			return err
		}
	}
	return words.Err()
}
