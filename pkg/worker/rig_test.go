package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// patience is how long a test waits for an event.
const patience = expect.Patience

// rig is a sender and a view of the database that its workers share.
type rig struct {
	*testing.T
	ctx    context.Context
	url    string
	rdb    redis.UniversalClient
	client *actors.Client

	stage *stage // for tests that need it later

	key string // the session of most tests; unique, because all databases share the channels
	k   rediskey.Session
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := rigOn(t, acl.As(t, redistest.URL(t), acl.Worker), redistest.New(t))
	r.client = actors.NewClient(acl.Client(t, acl.Sender))
	return r
}

func rigOn(t *testing.T, url string, rdb redis.UniversalClient) *rig {
	t.Helper()
	r := &rig{T: t, ctx: t.Context(), url: url, rdb: rdb, client: actors.NewClient(rdb)}
	r.key = strings.NewReplacer("/", ".", "#", "-").Replace(t.Name())
	r.k = rediskey.For(r.key)
	return r
}

// noWait as a drain's timeout interrupts turns at once.
const noWait = time.Nanosecond

// setup has the parts of a worker in this process.
type setup struct {
	worker.Config
	faults *redistest.Faults
}

// change changes a setup.
type change func(*setup)

func with(f func(*worker.Config)) change { return func(s *setup) { f(&s.Config) } }

func sentinelTTL(d time.Duration) change { return func(s *setup) { s.LeaseTTL = d } }

func slots(n int) change { return func(s *setup) { s.Concurrency = n } }

func faulty(f *redistest.Faults) change { return func(s *setup) { s.faults = f } }

// worker starts a worker in this process, with a separate connection pool. It is drained when the
// test ends.
func (r *rig) worker(a agent.Agent, changes ...change) *worker.Worker {
	r.Helper()
	w := r.idle(a, changes...)
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	expect.OK(r, w.Start(ctx))
	return w
}

// idle makes a worker that is not started.
func (r *rig) idle(a agent.Agent, changes ...change) *worker.Worker {
	r.Helper()
	rdb, err := redisconn.Open(r.url)
	expect.OK(r, err)
	s := setup{Config: worker.Config{
		Name: r.key + "/" + turnstile.NewMessageID()[:6], RetryBackoff: 20 * time.Millisecond, SweepInterval: time.Minute,
		DrainTimeout: noWait,
		Logger:       slog.New(slog.DiscardHandler),
	}}
	if testing.Verbose() {
		s.Logger = slog.New(slog.NewTextHandler(r.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	s.Jobs(false, 0)
	for _, c := range changes {
		c(&s)
	}
	if s.faults != nil {
		rdb.AddHook(s.faults)
	}
	w, err := worker.New(rdb, a, s.Config)
	expect.OK(r, err)
	r.Cleanup(func() {
		r.drainAtOnce(w)
		_ = rdb.Close()
	})
	return w
}

// drainAtOnce drains an idle worker without its remaining wait for work, which is up to a second:
// it wakes the worker.
func (r *rig) drainAtOnce(w *worker.Worker) {
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		w.Drain(ended(), worker.ReasonShutdown)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	for !w.Draining() && ctx.Err() == nil {
		runtime.Gosched()
	}
	_ = r.rdb.ZAdd(ctx, rediskey.Ready, redis.Z{Member: "nobody"}).Err() // the server may be gone
	<-drained
}

// ended returns an ended context: a drain with it does not wait.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// say sends a message to the rig's session.
func (r *rig) say(id, text string, mode ...session.Mode) receipt.Receipt {
	r.Helper()
	m := turnstile.Message{ID: id, Text: text}
	if len(mode) > 0 {
		m.Mode = mode[0]
	}
	return r.send(r.key, m)
}

func (r *rig) send(key string, m turnstile.Message) receipt.Receipt {
	r.Helper()
	told, err := receipt.Input(r.ctx, r.client.Session(key), m)
	expect.OK(r, err)
	return told
}

// outcome waits for a message's end.
func (r *rig) outcome(id string) session.Outcome { r.Helper(); return r.outcomeIn(r.key, id) }

func (r *rig) outcomeIn(key, id string) session.Outcome {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	o, err := r.client.Session(key).Wait(ctx, id)
	if err != nil {
		r.Fatalf("message %s of %s: %v\n%s", id, key, err, r.story(key))
	}
	return o
}

// ends waits for a message and checks how it ended.
func (r *rig) ends(id string, status session.Status) session.Outcome {
	r.Helper()
	o := r.outcome(id)
	if o.Status != status {
		r.Errorf("message %s ended as %s (%s), want %s", id, o.Status, o.Why(), status)
	}
	return o
}

func (r *rig) info() session.Info {
	r.Helper()
	s, err := r.client.Session(r.key).Info(r.ctx)
	expect.OK(r, err)
	return s
}

// free checks that the session has no owner.
func (r *rig) free(when string) {
	r.Helper()
	if token := r.token(); token != "" {
		r.Errorf("%s the sentinel is still up", when)
	}
}

func (r *rig) token() string { return r.rdb.Get(r.ctx, r.k.Sentinel()).Val() }

// archivedAs returns why a message is in the archive; it must be there.
func (r *rig) archivedAs(id string) string {
	r.Helper()
	task := rediskey.TaskID(r.key, id)
	if err := r.rdb.ZScore(r.ctx, r.k.Archived(), task).Err(); err != nil {
		r.Errorf("message %s is not in the archive: %v", id, err)
	}
	o, _, err := actors.Result(r.ctx, r.client.Session(r.key), id)
	expect.OK(r, err)
	return o.Why()
}

// events returns the session's stream. An entry of it may have the start of a turn before its
// event.
func (r *rig) events(key string) (all []session.Event) {
	r.Helper()
	entries, err := r.rdb.XRange(context.WithoutCancel(r.ctx), rediskey.For(key).Events(), "-", "+").Result()
	expect.OK(r, err)
	for _, m := range entries {
		for _, field := range []string{"s", "e"} {
			text, ok := m.Values[field].(string)
			if !ok {
				continue
			}
			var e session.Event
			expect.OK(r, json.Unmarshal([]byte(text), &e))
			var ms int64
			_, err := fmt.Sscanf(m.ID, "%d-", &ms)
			expect.OK(r, err)
			e.At = time.UnixMilli(ms)
			all = append(all, e)
		}
	}
	return all
}

// story returns the stream in short: the events of each message.
func (r *rig) story(key string) string {
	r.Helper()
	lines := make([]string, 0, 16)
	for _, e := range r.events(key) {
		lines = append(lines, fmt.Sprint(e.At.Format("05.000 "), e.Type, " ", strings.Join(e.Messages, ","), " ", e.Status, e.Reason, e.Text, e.Error))
	}
	return strings.Join(lines, "\n")
}

// starts returns the messages of the started turns, in order.
func (r *rig) starts(key string) (ids []string) {
	r.Helper()
	for _, e := range r.events(key) {
		if e.Type == session.EventTurnStarted {
			ids = append(ids, e.Messages...)
		}
	}
	return ids
}

// awaitEvent waits for an event that fits, and returns the first.
func (r *rig) awaitEvent(what string, fits func(session.Event) bool) (found session.Event) {
	r.Helper()
	expect.Soon(r, what, func() bool {
		i := slices.IndexFunc(r.events(r.key), fits)
		if i >= 0 {
			found = r.events(r.key)[i]
		}
		return i >= 0
	})
	return found
}

// transcript returns the session's present transcript, one line per entry.
func (r *rig) transcript(key string) (lines []string) {
	r.Helper()
	s, err := r.client.Session(key).Info(r.ctx)
	expect.OK(r, err)
	entries, err := actors.Transcript(r.ctx, r.client.Session(key), s.TranscriptID)
	expect.OK(r, err)
	for _, e := range entries {
		line := string(e.Role) + " " + e.Text
		if e.Tool != nil {
			line += e.Tool.Name
		}
		if e.Interrupted {
			line += " (interrupted)"
		}
		lines = append(lines, line)
	}
	return lines
}

// immediate is an agent without a start phase. Others get the history.
type immediate struct{ agent.Func }

func (immediate) Traits() agent.Traits { return agent.Traits{Immediate: true} }

// continuing is a stage whose turns go on after their last step.
type continuing struct{ *stage }

func (continuing) Traits() agent.Traits { return agent.Traits{Continues: true, Steerable: true} }

// stage is an agent with turns that the test plays itself.
type stage struct {
	acts chan *act
	deaf bool // its agents ignore interrupts
	quit chan struct{}
}

func newStage() *stage { return &stage{acts: make(chan *act, 1000)} }

// act is one turn on the stage. It ends when the test ends it, or when its context ends, with the
// cause.
type act struct {
	*agent.Turn
	ctx  context.Context
	over chan verdict
	by   int // the number of the warm agent that plays it
}

type verdict struct {
	result agent.Result
	err    error
}

func (s *stage) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	return s.play(&act{Turn: turn, ctx: ctx, over: make(chan verdict, 1)})
}

func (s *stage) play(a *act) (agent.Result, error) {
	s.acts <- a
	done := a.ctx.Done()
	if s.deaf {
		done = nil
	}
	select {
	case v := <-a.over:
		return v.result, v.err
	case <-done:
	case <-s.quit:
	}
	return agent.Result{}, context.Cause(a.ctx)
}

// next waits for the next turn, which must be of the message with the ID.
func (s *stage) next(t testing.TB, id string) *act {
	t.Helper()
	a := expect.Received(t, "the turn of "+id, s.acts)
	if got := a.Messages[0].ID; got != id {
		t.Fatalf("the turn is that of %s, want %s", got, id)
	}
	return a
}

// inTurn returns a rig with a worker and its stage, which plays the turn of a message m1.
func inTurn(t *testing.T, changes ...change) (*rig, *stage, *act) {
	t.Helper()
	r, s := newRig(t), newStage()
	r.worker(s, changes...)
	r.say("m1", "hello")
	return r, s, s.next(t, "m1")
}

// empty checks that no unexpected turn has begun.
func (s *stage) empty(t testing.TB) {
	t.Helper()
	select {
	case a := <-s.acts:
		t.Errorf("an agent was started for %s", a.Messages[0].ID)
	default:
	}
}

func (a *act) reply(text string) { a.over <- verdict{result: agent.Result{Text: text}} }
func (a *act) fail(err error)    { a.over <- verdict{err: err} }
func (a *act) text(text string)  { a.Emit(agent.Event{Type: session.EventText, Text: text}) }
func (a *act) cause(t testing.TB) error {
	t.Helper()
	select {
	case <-a.ctx.Done():
	case <-time.After(patience):
		t.Fatal("waited in vain for the end of the turn's context")
	}
	return context.Cause(a.ctx)
}
