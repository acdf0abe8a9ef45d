package engine_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"turnstile/pkg/session"
)

// deaf is an agent that ignores every request to stop, with descendants in and
// outside its process group.
var deaf = []string{"sh", "-c", `trap "" INT TERM HUP; setsid sleep 1000 & sleep 1000 & echo up; wait; sleep 1000`}

// family is the living processes that were started for a session's turn, or for
// any of them. Zombies have no environment.
func family(session, turn string) (pids []string) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range environs {
		env, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(env, []byte("TURNSTILE_SESSION="+session+"\x00")) {
			continue
		}
		if turn == "" || bytes.Contains(env, []byte("TURNSTILE_TURN_ID="+turn+"\x00")) {
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	return pids
}

// deafTurn puts a message in and waits until its agent's whole family is up.
func (r *rig) deafTurn(id string) (turn string) {
	r.Helper()
	r.say(id, "hello")
	r.awaitEvent("the agent's first word", func(e session.Event) bool { return e.Text != "" })
	turn = r.info().Turn
	await(r, "the agent's family", func() bool { return len(family(r.key, turn)) >= 3 })
	return turn
}

// goneBy checks that nothing of a turn is alive a second after since, when the
// session could be claimed again; slack is what may be added.
func (r *rig) goneBy(turn string, since time.Time, slack time.Duration) {
	r.Helper()
	await(r, "the end of the agent's family", func() bool { return len(family(r.key, turn)) == 0 })
	if took := time.Since(since); took > time.Second+slack {
		r.Errorf("the agent's processes were gone %s after the session could be claimed again", took)
	} else {
		r.Logf("gone %s after the session could be claimed again", took)
	}
}

func needLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs a subreaper and /proc: Linux only")
	}
}

func TestB86_NoAgentSurvivesItsTurn(t *testing.T) {
	t.Parallel()
	needLinux(t)
	const short = 2 * time.Second
	for name, c := range map[string]struct {
		job job
		end func(r *rig, p *process)
	}{
		"stop":      {job{TTL: time.Minute}, func(r *rig, _ *process) { r.say("", "/stop") }},
		"interrupt": {job{TTL: time.Minute}, func(r *rig, _ *process) { r.say("m2", "now", "interrupt") }},
		"timeout":   {job{TTL: time.Minute, Timeout: 700 * time.Millisecond}, func(*rig, *process) {}},
		"drain":     {job{TTL: time.Minute}, func(_ *rig, p *process) { p.signal(syscall.SIGTERM) }},
		"kill":      {job{TTL: short}, func(_ *rig, p *process) { p.kill() }},
		"stopped":   {job{TTL: short}, func(_ *rig, p *process) { p.signal(syscall.SIGSTOP) }},
		"loss": {job{TTL: short}, func(r *rig, _ *process) {
			must(r, r.rdb.Set(r.ctx, r.k.Sentinel(), "a thief's", time.Hour).Err())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			c.job.Command = deaf
			p := r.process("one", c.job)
			turn := r.deafTurn("m1")
			token := r.token()
			c.end(r, p)
			// The session can be claimed again when the sentinel is free or another's,
			// or the next turn has begun.
			await(t, "the end of the turn's hold", func() bool {
				s := r.info()
				return r.token() != token || s.Phase != session.PhaseIdle && s.Turn != turn
			})
			slack := time.Duration(0)
			if name == "loss" { // by another's hand, so it is for the next renewal to find out
				slack = short / 3
			}
			r.goneBy(turn, time.Now(), slack)
			if name == "stopped" {
				p.signal(syscall.SIGCONT)
			}
		})
	}
}
