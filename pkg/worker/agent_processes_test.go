package worker_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// deaf is an agent that ignores every signal to stop, with descendants in and outside its process
// group.
var deaf = []string{"sh", "-c", `trap "" INT TERM HUP; setsid sleep 1000 & sleep 1000 & echo up; wait; sleep 1000`}

// family returns the living processes of a session's turn, or of all its turns. Zombies have no
// environment and are left out.
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

// deafTurn sends a message and waits until all processes of its agent run.
func (r *rig) deafTurn(id string) (turn string) {
	r.Helper()
	r.say(id, "hello")
	r.awaitEvent("the agent's first word", func(e session.Event) bool { return e.Text != "" })
	turn = r.info().Turn
	expect.Soon(r, "the agent's family", func() bool { return len(family(r.key, turn)) >= 3 })
	return turn
}

// goneBy checks that no process of a turn is alive later than slack after since.
func (r *rig) goneBy(turn string, since time.Time, slack time.Duration) {
	r.Helper()
	seen := since
	expect.Soon(r, "the end of the agent's family", func() bool {
		now := time.Now() // listing processes takes a while on a busy machine
		if len(family(r.key, turn)) == 0 {
			return true
		}
		seen = now
		return false
	})
	if took := seen.Sub(since); took > slack {
		r.Errorf("the agent's processes were alive %s after the session could be claimed again", took)
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
	short := expect.Lease(3 * time.Second)
	// A worker that is alive releases the session only after its agent's end.
	gaveUp := func(r *rig, turn, token string) {
		// The session can be claimed when the sentinel is free, or the next turn has begun.
		expect.Soon(r, "the end of the turn's claim", func() bool {
			s := r.info()
			return r.token() != token || s.Phase != session.PhaseIdle && s.Turn != turn
		})
		if alive := family(r.key, turn); len(alive) > 0 {
			r.Errorf("the session can be claimed while %q of its agent are alive", alive)
		}
	}
	// A worker that is dead or stopped cannot do that: the guardian ends the agent before the
	// sentinel ends.
	outlived := func(r *rig, turn, token string) {
		expect.Soon(r, "the end of the agent's family", func() bool { return r.token() != token || len(family(r.key, turn)) == 0 })
		r.goneBy(turn, time.Now(), time.Second)
	}
	for name, c := range map[string]struct {
		job   job
		end   func(r *rig, p *process)
		after func(r *rig, turn, token string)
	}{
		"stop":      {job{TTL: time.Minute}, func(r *rig, _ *process) { r.say("", "/stop") }, gaveUp},
		"interrupt": {job{TTL: time.Minute}, func(r *rig, _ *process) { r.say("m2", "now", "interrupt") }, gaveUp},
		"timeout":   {job{TTL: time.Minute, Timeout: short}, func(*rig, *process) {}, gaveUp},
		"drain":     {job{TTL: time.Minute}, func(_ *rig, p *process) { p.signal(syscall.SIGTERM) }, gaveUp},
		"kill": {job{TTL: time.Minute}, func(_ *rig, p *process) { p.kill() }, func(r *rig, turn, token string) {
			r.goneBy(turn, time.Now(), patience) // at any time: the sentinel ends much later
			expect.Equal(r, "the sentinel behind the agent's end", r.token(), token)
		}},
		"stopped": {job{TTL: short}, func(_ *rig, p *process) { p.stop() }, outlived},
		"loss": {job{TTL: short}, func(r *rig, _ *process) {
			expect.OK(r, r.rdb.Set(r.ctx, r.k.Sentinel(), "a thief's", time.Hour).Err())
		}, func(r *rig, turn, _ string) {
			r.goneBy(turn, time.Now(), short/3+expect.Lease(time.Second)) // the worker notices at its next renewal
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
			c.after(r, turn, token)
			if name == "stopped" {
				p.signal(syscall.SIGCONT)
			}
		})
	}
}
