package worker_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// proofSessions is how many sessions the proof has, of ten messages each: 200 with
// TURNSTILE_PROOF=true, which `make proof` sets, else few.
func proofSessions(few int) int {
	if expect.Proof() {
		return 200
	}
	return few
}

const proofMessages = 10

// Two workers run, and a third joins later. One of the first two is killed, or stopped past its
// TTL, in the middle. Every message has one reply, in order, and none is lost.
func TestProof200x10(t *testing.T) {
	t.Parallel()
	kill := func(p *process) { p.kill() }
	stop := func(*process) {} // prove has stopped it
	t.Run("kill", func(t *testing.T) {
		t.Parallel()
		prove(newRig(t), proofSessions(40), kill)
	})
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		prove(newRig(t), proofSessions(40), stop)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t)
		prove(rigOn(t, c.URL(), c.Client()), proofSessions(20), kill)
	})
	t.Run("cluster stop", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t)
		prove(rigOn(t, c.URL(), c.Client()), proofSessions(20), stop)
	})
}

// prove calls strike with a worker that is stopped in the middle of its turns.
func prove(r *rig, sessions int, strike func(*process)) {
	j := job{TTL: expect.Lease(2 * time.Second), Concurrency: 10}
	one := r.process("one", j)
	held := r.key + "-held" // a turn that the first worker still runs when it is struck, however slow this test is
	r.send(held, turnstile.Message{ID: "0", Text: "linger"})
	expect.Soon(r, "the first worker's turn", func() bool { return r.runs(one) })
	r.process("two", j)
	keys := make([]string, sessions)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%d", r.key, i)
	}
	struck := make(chan struct{})
	sent := r.sendAll(keys, struck)
	expect.Soon(r, "a third of the replies", func() bool { return r.countDone(keys) >= sessions*proofMessages/3 })
	expect.Soon(r, "a moment at which the first worker runs turns", func() bool {
		one.stop()
		running := r.runs(one)
		if running {
			running = r.runs(one) // at the first check a finish may have been in flight
		}
		if !running {
			one.signal(syscall.SIGCONT)
		}
		return running
	})
	strike(one)
	close(struck)
	r.process("three", j)
	sent.Wait()
	for _, key := range keys {
		r.outcomeIn(key, fmt.Sprint(proofMessages-1))
	}
	if one.cmd.ProcessState == nil { // stopped, not killed: it continues now, past its TTL
		expect.Soon(r, "the end of its lease", func() bool { return len(r.starts(held)) > 1 })
		one.signal(syscall.SIGCONT)
		expect.Soon(r, "the stopped worker to notice", func() bool { return strings.Contains(one.log.String(), "status=lost") })
	}
	r.outcomeIn(held, "0")
	expect.List(r, held+": transcript", r.transcript(held), "user linger", "tool look (interrupted)", "assistant echo: linger")
	again := len(r.starts(held)) - 1
	for _, key := range keys {
		again += r.proved(key)
	}
	if again == 0 {
		r.Error("no turn was running when the worker was struck: nothing is proved")
	}
	r.Logf("%d sessions x %d messages, %d turns were redelivered", sessions, proofMessages, again)
}

// proofText is a session's message with this number. The one in the middle takes long enough for its
// worker to write of it, and to be struck then.
func proofText(i int) string {
	sleep := "20ms"
	if i == proofMessages/2 {
		sleep = "300ms"
	}
	return fmt.Sprintf("sleep=%s stream=2 message %d", sleep, i)
}

// sendAll sends the messages, in order within each session: the last ones when a worker was struck, so that
// there is work left then.
func (r *rig) sendAll(keys []string, struck <-chan struct{}) *sync.WaitGroup {
	var all sync.WaitGroup
	const senders = 8
	for n := range senders {
		all.Go(func() {
			for i := range proofMessages {
				if i == proofMessages-1 {
					select {
					case <-struck:
					case <-r.ctx.Done():
						return
					}
				}
				for s := n; s < len(keys); s += senders {
					m := turnstile.Message{ID: fmt.Sprint(i), Text: proofText(i)}
					if _, err := receipt.Input(r.ctx, r.client.Session(keys[s]), m); err != nil {
						r.Error(err)
						return
					}
				}
			}
		})
	}
	return &all
}

// runs reports whether a worker runs a turn of which Redis has a write. Without one it may not have
// read the claim's reply, and a worker that is stopped there has no turn to lose. The records are
// read in one pipeline, because the worker is stopped while its leases continue.
func (r *rig) runs(p *process) bool {
	r.Helper()
	busy, err := actors.Collect(r.client.Sessions(r.ctx, admin.Query{State: admin.StateBusy}))
	expect.OK(r, err)
	busy = slices.DeleteFunc(busy, func(s admin.SessionInfo) bool { return s.Worker != p.id || s.Phase != session.PhaseRunning })
	written := make([]*redis.StringCmd, len(busy))
	_, err = r.rdb.Pipelined(r.ctx, func(pipe redis.Pipeliner) error {
		for i, s := range busy {
			written[i] = pipe.HGet(r.ctx, rediskey.For(s.Session).Run(), "seq")
		}
		return nil
	})
	if !errors.Is(err, redis.Nil) {
		expect.OK(r, err)
	}
	for i, s := range busy {
		if strings.HasPrefix(written[i].Val(), fmt.Sprint(s.Fence, " ")) {
			return true
		}
	}
	return false
}

// countDone counts the messages that are done.
func (r *rig) countDone(keys []string) (n int) {
	r.Helper()
	counts := make([]*redis.IntCmd, len(keys))
	_, err := r.rdb.Pipelined(r.ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			counts[i] = p.ZCard(r.ctx, rediskey.For(key).Completed())
		}
		return nil
	})
	expect.OK(r, err)
	for _, c := range counts {
		n += int(c.Val())
	}
	return n
}

// proved checks one session, and returns how many turns were redelivered.
func (r *rig) proved(key string) (again int) {
	r.Helper()
	want := make([]string, 0, 2*proofMessages)
	ends := make([]string, 0, proofMessages)
	var ended []string
	for i := range proofMessages {
		text := fmt.Sprintf("message %d", i)
		want = append(want, "user "+proofText(i), "assistant echo: "+text)
		ends = append(ends, fmt.Sprint(i))
		o := r.outcomeIn(key, fmt.Sprint(i))
		if o.Status != session.StatusDone || o.Reply != "echo: "+text {
			r.Errorf("%s: message %d ended as %s with %q (%s)", key, i, o.Status, o.Reply, o.Error)
		}
	}
	for _, e := range r.events(key) {
		if e.Type == session.EventTurnEnded {
			ended = append(ended, e.Messages...)
		}
	}
	expect.List(r, key+": ends", ended, ends...)
	expect.List(r, key+": transcript", r.transcript(key), want...)
	starts := r.starts(key)
	expect.List(r, key+": turns", slices.Compact(slices.Clone(starts)), ends...)
	s, err := r.client.Session(key).Info(r.ctx)
	expect.OK(r, err)
	if s.Phase != session.PhaseIdle || s.Waiting+s.Delayed+s.DeadLetters > 0 || r.rdb.LLen(r.ctx, rediskey.For(key).Active()).Val() > 0 {
		r.Errorf("%s is left as %+v", key, s)
	}
	return len(starts) - len(slices.Compact(starts))
}
