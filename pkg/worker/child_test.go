package worker_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/agent/exec"
	"turnstile/pkg/worker"
)

// childVariable makes the test binary a worker; its value is a job.
const childVariable = "TURNSTILE_TEST_CHILD"

// job configures a worker process.
type job struct {
	URL, ID     string
	Command     []string // of the exec agent; empty: the mortal echo agent
	Warm        bool     // the remembering agent instead
	TTL         time.Duration
	Drain       time.Duration
	Timeout     time.Duration
	Checkpoint  time.Duration
	Concurrency int
	Park        time.Duration
	Verbose     bool

	// Files of a worker that dies at a step; see deathAt and logged.
	Steps, Log        string
	Step              int
	Before, Immediate bool
	Model             string // its server's URL: the openai agent instead, whose tools write into Log
}

// runChild runs a worker process, which drains on SIGTERM and ends with its parent.
func runChild(text string) {
	err := func() error {
		var j job
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			return err
		}
		return j.run()
	}()
	code := 0
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	syscall.Exit(code) // os.Exit takes a second in a race build
}

func (j job) run() error {
	rdb, err := redisconn.Open(j.URL)
	if err != nil {
		return err
	}
	var a agent.Agent = mortal{echo.New()}
	switch {
	case j.Warm:
		a = remembering{}
	case j.Steps != "":
		d, err := newDeathAt(j)
		if err != nil {
			return err
		}
		rdb.AddHook(d)
		if a, err = newLogged(j.Log, j.Immediate); j.Model != "" {
			a, err = newModelAgent(j.Model, j.Log)
		}
		if err != nil {
			return err
		}
	case len(j.Command) > 0:
		if a, err = exec.New(exec.Config{Command: j.Command, Grace: 300 * time.Millisecond}); err != nil {
			return err
		}
	}
	level := slog.LevelWarn
	if j.Verbose {
		level = slog.LevelDebug
	}
	c := worker.Config{
		Name: j.ID, Concurrency: j.Concurrency, ParkAfter: j.Park, AgentTimeout: j.Timeout, DrainTimeout: cmp.Or(j.Drain, noWait),
		LeaseTTL: j.TTL, RecoveryRate: 1000,
		RetryBackoff:  20 * time.Millisecond,
		SweepInterval: time.Minute,
		Logger:        slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	}
	c.CheckpointInterval(j.Checkpoint)
	c.Jobs(false, 0)
	w, err := worker.New(rdb, a, c)
	if err != nil {
		return err
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	orphaned := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // the parent holds the other end
		close(orphaned)
	}()
	if err := w.Start(context.Background()); err != nil {
		return err
	}
	fmt.Println("ready")
	select {
	case <-told:
		w.Drain(context.Background(), worker.ReasonShutdown)
		return nil
	case <-orphaned:
		return errors.New("the test has ended")
	}
}

// mortal is the echo agent with two changes. A message that begins with "die" kills its worker.
// One that begins with "linger" uses a tool and then takes an hour, unless it is redelivered.
type mortal struct{ *echo.Agent }

func (m mortal) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	if strings.HasPrefix(turn.Messages[0].Text, "die") {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return agent.Result{}, err
		}
		select {}
	}
	if strings.HasPrefix(turn.Messages[0].Text, "pay ") {
		return paying{}.Run(ctx, turn)
	}
	if strings.HasPrefix(turn.Messages[0].Text, "linger") && !turn.Redelivered {
		turn.Messages[0].Text = "tool=look sleep=1h " + turn.Messages[0].Text
	}
	return m.Agent.Run(ctx, turn)
}
