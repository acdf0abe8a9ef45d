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
	"turnstile/test/expect"
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
	expect.Soon(r, "the agent's family", func() bool { return len(family(r.key, turn)) >= 3 })
	return turn
}

// goneBy checks that nothing of a turn is seen alive later than slack after since.
func (r *rig) goneBy(turn string, since time.Time, slack time.Duration) {
	r.Helper()
	seen := since
	expect.Soon(r, "the end of the agent's family", func() bool {
		now := time.Now() // to look takes a while where many processes run
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
	const short = 3 * time.Second
	// A worker that lives gives the session up behind its agent's end.
	gaveUp := func(r *rig, turn, token string) {
		// The session can be claimed again when the sentinel is free, or the next turn has begun.
		expect.Soon(r, "the end of the turn's claim", func() bool {
			s := r.info()
			return r.token() != token || s.Phase != session.PhaseIdle && s.Turn != turn
		})
		if alive := family(r.key, turn); len(alive) > 0 {
			r.Errorf("the session can be claimed while %q of its agent are alive", alive)
		}
	}
	// One that is dead or stopped cannot: the guardian ends the agent by the sentinel's end.
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
			r.goneBy(turn, time.Now(), patience) // whenever: long before the sentinel ends
			expect.Equal(r, "the sentinel behind the agent's end", r.token(), token)
		}},
		"stopped": {job{TTL: short}, func(_ *rig, p *process) { p.stop() }, outlived},
		"loss": {job{TTL: short}, func(r *rig, _ *process) {
			expect.OK(r, r.rdb.Set(r.ctx, r.k.Sentinel(), "a thief's", time.Hour).Err())
		}, func(r *rig, turn, _ string) {
			r.goneBy(turn, time.Now(), short/3+time.Second) // it is for the next renewal to find out
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
