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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/agent/exec"
	"turnstile/pkg/session"
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
	Model             string // its server's URL: the agent model instead, whose tools write into Log
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

// deathAt kills its process at one of a turn's calls to Redis: before the call is sent, or after
// its reply arrived and before it is used. Steps are numbered from 1, in the order of the calls.
// A file gets each step's name, one per line.
type deathAt struct {
	step   int // 0: never
	before bool
	file   *os.File

	mu   sync.Mutex
	seen int
}

func newDeathAt(j job) (*deathAt, error) {
	file, err := os.OpenFile(j.Steps, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return &deathAt{step: j.Step, before: j.Before, file: file}, err
}

// DialHook changes nothing.
func (d *deathAt) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook numbers single commands.
func (d *deathAt) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		name := stepName(cmd)
		if strings.HasSuffix(name, "zpopmin ready") || name == "dispatch" { // most pops find nothing, after a long wait
			err := next(ctx, cmd)
			if err == nil && popped(cmd) {
				d.reach(name)
			}
			return err
		}
		d.enter(name)
		err := next(ctx, cmd)
		d.leave(name)
		return err
	}
}

// ProcessPipelineHook numbers a pipeline as one step.
func (d *deathAt) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var names []string
		for _, cmd := range cmds {
			if name := stepName(cmd); name != "" {
				names = append(names, name)
			}
		}
		name := strings.Join(names, ", ")
		d.enter(name)
		err := next(ctx, cmds)
		d.leave(name)
		return err
	}
}

func (d *deathAt) enter(name string) {
	if d.before {
		d.reach(name)
	}
}

func (d *deathAt) leave(name string) {
	if !d.before {
		d.reach(name)
	}
}

// reach counts a step, and ends the process at the chosen one.
func (d *deathAt) reach(name string) {
	if name == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen++
	fmt.Fprintln(d.file, name)
	if d.seen == d.step {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the process is about to die
	}
}

func popped(cmd redis.Cmder) bool {
	switch c := cmd.(type) {
	case *redis.ZSliceCmd:
		return len(c.Val()) > 0
	case *redis.ZWithKeyCmd:
		return c.Val() != nil
	case *redis.Cmd: // dispatch
		result, _ := c.Slice()
		found, _ := result[0].([]any)
		return len(found) > 0
	}
	return false
}

// stepName returns the name of a turn's call, or "" for calls of the timers and of the connection
// itself.
func stepName(cmd redis.Cmder) string {
	args := cmd.Args()
	key := 1
	if strings.HasPrefix(cmd.Name(), "eval") {
		key = 3
	}
	if len(args) <= key {
		return ""
	}
	name, _ := args[key].(string)
	_, own, of := strings.Cut(name, "}:")
	switch {
	case key == 3 && strings.HasPrefix(name, rediskey.Sorted[:len(rediskey.Sorted)-len("sorted")]), key == 3 && name == rediskey.Ready:
		sha, _ := args[1].(string)
		return sq.ScriptName(sha) // dispatch, hold
	case name == rediskey.Ready || name == rediskey.Owned || name == rediskey.Due:
		if cmd.Name() != "zadd" && !strings.HasSuffix(cmd.Name(), "zpopmin") {
			return "" // of a timer
		}
		return cmd.Name() + " " + strings.TrimPrefix(name, "turnstile:")
	case !of || cmd.Name() == "exists":
		return ""
	case key == 3:
		sha, _ := args[1].(string)
		script := sq.ScriptName(sha)
		if script == "look" {
			return ""
		}
		return script
	}
	if i := strings.IndexByte(own, ':'); i > 0 {
		own = own[:i]
	}
	return cmd.Name() + " " + own
}

// logged is the echo agent, with a start phase if requested. It logs when its turns begin and
// end. A process that is killed leaves a begin without an end.
type logged struct {
	*echo.Agent
	immediate bool
	file      *os.File
}

func newLogged(path string, immediate bool) (*logged, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return &logged{echo.New(), immediate, file}, err
}

// Traits are echo's, or the job's choice.
func (l *logged) Traits() agent.Traits { return agent.Traits{Immediate: l.immediate, Steerable: true} }

// Run is echo's Run with a log line before and after it.
func (l *logged) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	if _, err := fmt.Fprintf(l.file, "begin %d %d %s\n", turn.Fence, os.Getpid(), turn.Messages[0].ID); err != nil {
		return agent.Result{}, err
	}
	result, err := agent.Result{}, error(nil)
	if strings.Contains(turn.Messages[0].Text, asks) {
		err = remember(ctx, turn)
	}
	if err == nil {
		result, err = l.Agent.Run(ctx, turn)
	}
	if _, err := fmt.Fprintf(l.file, "end %d %d %s\n", turn.Fence, os.Getpid(), turn.Messages[0].ID); err != nil {
		return agent.Result{}, err
	}
	return result, err
}

// asks at the end of a message's text makes its turn store agent state and ask for a permission.
const asks = "asks"

// remember stores state and asks for a permission. The state lists the messages that the agent
// knows of. The turn fails if they are not those of the transcript, apart from this turn's own
// message.
func remember(ctx context.Context, turn *agent.Turn) error {
	own := turn.Messages[0].ID
	var said, known []string
	for _, e := range turn.History {
		if e.Message != "" {
			said = append(said, e.Message)
		}
	}
	if turn.State == nil {
		known = said
	} else if err := json.Unmarshal(turn.State, &known); err != nil {
		return err
	}
	others := func(ids []string) []string {
		return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == own })
	}
	if !slices.Equal(others(said), others(known)) {
		return fmt.Errorf("the state knows of %q, the transcript of %q", known, said)
	}
	data, err := json.Marshal(append(others(known), own))
	if err != nil {
		return err
	}
	turn.Emit(agent.Event{Type: session.EventState, Data: data})
	answer, err := turn.Ask(ctx, agent.Question{Name: "answer " + own})
	if err == nil && !answer.Allowed() {
		err = errors.New("it was not allowed")
	}
	return err
}
