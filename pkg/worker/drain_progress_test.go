package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"turnstile"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

// journal is a log. A test reads its lines that contain a word.
type journal struct {
	slog.Handler
	about string
	lines chan slog.Record
}

func newJournal(about string) *journal {
	return &journal{Handler: slog.DiscardHandler, about: about, lines: make(chan slog.Record, 100)}
}

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }
func (j *journal) WithAttrs([]slog.Attr) slog.Handler       { return j }
func (j *journal) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, j.about) {
		j.lines <- r
	}
	return nil
}

// next waits for the next line, which must have a message and these attributes.
func (j *journal) next(t *testing.T, message string, want map[string]string) slog.Record {
	t.Helper()
	line := expect.Received(t, message, j.lines)
	expect.Equal(t, "the log's line", line.Message, message)
	line.Attrs(func(a slog.Attr) bool {
		if v, ok := want[a.Key]; ok {
			expect.Equal(t, a.Key, a.Value.String(), v)
			delete(want, a.Key)
		}
		return true
	})
	if len(want) > 0 {
		t.Errorf("the line %q lacks %v", line.Message, want)
	}
	return line
}

// A drain reports its progress: by Status, and in the log at its beginning, at its end and at each
// turn's end, but at most once a second.
func TestDrainProgress(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStage()
	j := newJournal("drain")
	w := r.worker(s, drainTimeout(time.Hour), sentinelTTL(expect.Lease(3*time.Second)), with(func(o *worker.Config) { o.Logger = slog.New(j) }))
	expect.Equal(t, "before", fmt.Sprint(w.Status()), fmt.Sprint(worker.Status{Slots: 10}))
	acts := map[string]*act{}
	for _, name := range []string{"one", "two", "three", "cut", "stolen"} {
		r.send(r.key+"-"+name, turnstile.Message{ID: name, Text: "hello"})
		acts[name] = s.next(t, name)
	}
	expect.Equal(t, "while it works", fmt.Sprint(w.Status()), fmt.Sprint(worker.Status{Slots: 10, Running: 5}))

	ctx, cut := context.WithCancel(r.ctx)
	defer cut()
	done := make(chan error, 1)
	go func() { done <- w.StopToRestart(ctx) }()
	j.next(t, "draining", map[string]string{"reason": "restart", "running": "5", "timeout": "1h0m0s"})
	p := w.Status()
	if p.Left <= 59*time.Minute || p.Left > time.Hour {
		t.Errorf("at the begin %s are left", p.Left)
	}
	p.Left = 0
	expect.Equal(t, "at the begin", fmt.Sprint(p), fmt.Sprint(worker.Status{Slots: 10, Draining: true, Running: 5}))

	acts["one"].reply("ok")
	first := j.next(t, "still draining", map[string]string{"running": "4"})
	acts["two"].reply("ok")
	acts["three"].reply("ok")
	second := j.next(t, "still draining", nil)
	slow := false // one of them ended a second before the other
	second.Attrs(func(a slog.Attr) bool { slow = slow || a.Key == "running" && a.Value.String() == "3"; return true })
	if slow {
		first, second = second, j.next(t, "still draining", map[string]string{"running": "2"})
	}
	if apart := second.Time.Sub(first.Time); apart < time.Second {
		t.Errorf("two lines within %s", apart)
	}
	expect.Equal(t, "later", w.Status().Running, 2)

	expect.OK(t, r.rdb.Del(r.ctx, rediskey.For(r.key+"-stolen").Sentinel()).Err())
	_ = acts["stolen"].cause(t)
	expect.Soon(t, "the end of the lost turn", func() bool { return w.Status().Running == 1 })
	cut()
	_ = acts["cut"].cause(t)
	unwritten := func(err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "the ends of 1 turns could not be written") {
			t.Error(err)
		}
	}
	unwritten(expect.Received(t, "the end of the drain", done)) // the stolen one
	for line := range j.lines {                                 // there is one about the lost turn if a second had passed
		if line.Message == "drained" {
			j.lines <- line
			break
		}
	}
	j.next(t, "drained", map[string]string{"reason": "restart", "finished": "3", "requeued": "1", "lost": "1"})
	expect.Equal(t, "after it", fmt.Sprint(w.Status()), fmt.Sprint(worker.Status{Slots: 10, Draining: true}))
	unwritten(w.Stop(r.ctx))
}

// While agents are being interrupted, no time is left, and their turns still count.
func TestDrainProgressAfterTheTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up, let := make(chan bool, 1), make(chan bool)
	w := r.worker(silent(up, let), drainTimeout(10*time.Millisecond))
	r.say("m1", "hello")
	expect.Received(t, "the turn", up)
	drained := drain(w)
	expect.Soon(t, "the interrupt", func() bool { return w.Interrupted() == 1 })
	expect.Equal(t, "progress", fmt.Sprint(w.Status()), fmt.Sprint(worker.Status{Slots: 10, Draining: true, Running: 1}))
	close(let)
	expect.Received(t, "the end of the drain", drained)
}

// silent is an agent that ends only when the test lets it, and ignores interrupts.
func silent(up chan<- bool, let <-chan bool) agent.Func {
	return func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
		up <- true
		<-let
		return agent.Result{}, context.Cause(ctx)
	}
}
