package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
)

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
		if strings.HasSuffix(name, "zpopmin ready") { // most pops find nothing, after a long wait
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
