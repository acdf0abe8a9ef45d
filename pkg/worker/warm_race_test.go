package worker_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// remembering is an agent that keeps the transcript in memory: it gets the history when it is
// built, and adds its own turns. Its replies show whether it still knows all of it: "PID BUILD
// TURNS fresh" or "... stale".
type remembering struct{}

var builds atomic.Int64

func (remembering) Signature() string { return "" }

func (a remembering) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	return agent.RunOnce(ctx, a, turn)
}

func (remembering) Warm(_ context.Context, turn *agent.Turn) (agent.Warm, error) {
	return &memory{build: builds.Add(1), lines: wordsOf(turn.History)}, nil
}

func wordsOf(entries []session.Entry) (lines []string) {
	for _, e := range entries {
		lines = append(lines, e.Text)
	}
	return lines
}

type memory struct {
	build, turns int64
	lines        []string
}

func (m *memory) Run(_ context.Context, turn *agent.Turn) (agent.Result, error) {
	m.turns++
	state := "fresh"
	if strings.Join(m.lines, "\n") != strings.Join(wordsOf(turn.History), "\n") {
		state = "stale"
	}
	reply := fmt.Sprint(os.Getpid(), " ", m.build, " ", m.turns, " ", state)
	m.lines = append(m.lines, turn.Messages[0].Text, reply)
	return agent.Result{Text: reply}, nil
}

func (*memory) Ended() bool { return false }

func (*memory) Close() error { return nil }

// Two processes write to one session in turns: no warm agent replies without the other process's
// entries.
func TestB50_TwoProcessesWriteInTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.process("one", job{Warm: true})
	r.process("two", job{Warm: true})
	pids, again, rebuilt := map[string]bool{}, 0, 0
	for burst := range 15 {
		// Do not prefer the worker with the warm agent.
		expect.OK(t, r.rdb.HDel(r.ctx, r.k.Run(), "warm").Err())
		ids := make([]string, 1+burst%3)
		for i := range ids {
			ids[i] = fmt.Sprint("m", burst, ".", i)
			r.say(ids[i], "about "+ids[i])
		}
		for _, id := range ids {
			said := strings.Fields(r.ends(id, session.StatusDone).Reply)
			if len(said) != 4 || said[3] != "fresh" {
				t.Fatalf("the reply to message %s is %q", id, said)
			}
			if said[2] != "1" {
				again++
			} else if pids[said[0]] {
				rebuilt++
			}
			pids[said[0]] = true
		}
	}
	expect.Equal(t, "processes that took part", len(pids), 2)
	if again == 0 || rebuilt == 0 {
		t.Errorf("%d turns had a warm agent, %d one that was built again: want some of each", again, rebuilt)
	}
	t.Logf("%d turns had a warm agent, %d one that was built again", again, rebuilt)
}
