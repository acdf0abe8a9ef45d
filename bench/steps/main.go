// Command steps measures what a turn's steps cost, with redis-servers that it starts: whether the hundredth step of a
// turn costs more than the second, how long a step's start and end take to be stored, and a turn of 20 steps
// beside one without. The agent is a Go one, and its steps do nothing.
//
// The first comparison is with AOF everysec, because a sync takes longer than all else; the last with always.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/bench/internal/lab"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

var (
	long   = flag.Int("long", 60, "turns of 100 steps")
	writes = flag.Int("writes", 3000, "steps whose writes are timed, with each way to write the file")
	rounds = flag.Int("rounds", 9, "rounds of turns with and without steps")
	turns  = flag.Int("turns", 40, "turns of each kind in a round")
)

func main() { lab.Main("steps", run) }

func run(ctx context.Context, _ *lab.Server, report *lab.Report) error {
	always, err := lab.StartServer(ctx, lab.Always)
	if err != nil {
		return err
	}
	defer always.Stop()
	everysec, err := lab.StartServer(ctx, lab.Everysec)
	if err != nil {
		return err
	}
	defer everysec.Stop()
	if err := growth(ctx, everysec, report, lab.Quick(*long, 5)); err != nil {
		return err
	}
	for _, file := range []struct {
		srv  *lab.Server
		name lab.Persistence
	}{{always, lab.Always}, {everysec, lab.Everysec}} {
		if err := stored(ctx, file.srv, report, file.name, lab.Quick(*writes, 200)); err != nil {
			return err
		}
	}
	return beside(ctx, always, report, lab.Quick(*rounds, 3), lab.Quick(*turns, 10))
}

// The input and the output of a step, of 200 bytes each.
var (
	input  = json.RawMessage(`{"text":"` + strings.Repeat("x", 189) + `"}`)
	output = json.RawMessage(`{"text":"` + strings.Repeat("y", 189) + `"}`)
)

// spec is the n-th step's, from 1.
func spec(n int) agent.StepSpec {
	return agent.StepSpec{Key: fmt.Sprintf("step%04d", n), Name: "act", Input: input}
}

// step is a step that does nothing.
func step(ctx context.Context, turn *agent.Turn, n int) error {
	_, err := agent.Step(ctx, turn, spec(n), func(context.Context, string) (json.RawMessage, error) { return output, nil })
	return err
}

// talk has a worker run turns, one after the other, each in another session. It returns
// how long they took, without the worker's start and end.
func talk(ctx context.Context, rdb, sender redis.UniversalClient, prefix string, a agent.Agent, turns int) (took time.Duration, err error) {
	w, err := lab.Work(ctx, rdb, a, lab.Production(1))
	if err != nil {
		return 0, err
	}
	defer lab.Stop(ctx, w)
	began := time.Now()
	client := turnstile.NewClient(sender)
	for i := range turns {
		chat := client.Session(fmt.Sprintf("%s:%d", prefix, i))
		if _, err := chat.Send(ctx, turnstile.Message{ID: "m", Text: "hello"}); err != nil {
			return 0, err
		}
		end, err := chat.Wait(ctx, "m")
		if err != nil {
			return 0, err
		}
		if end.Status != session.StatusDone {
			return 0, fmt.Errorf("a turn ended %s: %s", end.Status, end.Error)
		}
	}
	return time.Since(began), nil
}
