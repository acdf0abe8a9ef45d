package explore_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
	"turnstile/internal/redis/script"
	"turnstile/pkg/agent"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/explore"
	"turnstile/test/redistest"
)

// calls records a program's commands for a session.
type calls struct {
	clock bool // commands that read the time count, too

	mu    sync.Mutex
	names []string
}

func (c *calls) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *calls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		c.note(cmd, err)
		return err
	}
}

func (c *calls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			c.note(cmd, cmd.Err())
		}
		return err
	}
}

// note keeps the commands for the session. It leaves out a worker's timers, its subscriptions, its
// asynq.Server, and waits for work that returned none. It also leaves out emit, because on a slow
// machine a separate emit sends the start of a turn.
func (c *calls) note(cmd redis.Cmder, err error) {
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		return
	}
	words := make([]string, len(cmd.Args()))
	for i, a := range cmd.Args() {
		words[i] = fmt.Sprint(a)
	}
	name := explore.CommandName(words)
	switch {
	case name == "bzpopmin" || name == "zpopmin":
		if !strings.Contains(cmd.String(), ": {") && !strings.Contains(cmd.String(), ": [{") || err != nil {
			return
		}
		name = "zpopmin"
	case strings.HasPrefix(words[len(words)-1], "turnstile:timer") || slices.Contains([]string{"index_due", "rescore", "look", "exists", "emit"}, name):
		return
	case name == "time" && c.clock:
	case !strings.Contains(strings.Join(words, " "), rediskey.Queue(main)) && words[len(words)-1] != main:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = append(c.names, name)
}

func (c *calls) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.names)
}

// instant is an agent that replies at once.
type instant struct{}

func (instant) Run(context.Context, *agent.Turn) (agent.Result, error) {
	return agent.Result{Text: "done"}, nil
}

// The programs of the searches send the same commands as the real Client and Worker.
func TestTrace(t *testing.T) {
	for _, ids := range [][]string{{"m1"}, {"m1", "m2"}} {
		t.Run(strings.Join(ids, " "), func(t *testing.T) {
			rdb, err := redisconn.Open(redistest.URL(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = rdb.Close() })
			sent, done := &calls{clock: true}, &calls{}
			sending := redistest.New(t)
			for _, known := range script.All() {
				if err := sending.ScriptLoad(t.Context(), known.Source).Err(); err != nil {
					t.Fatal(err)
				}
			}
			// The worker's sweep and its jobs would read the session, too.
			for _, key := range []string{rediskey.Timer("sweep"), "asynq:{turnstile:maintenance}:paused"} {
				if err := sending.Set(t.Context(), key, "nobody", time.Hour).Err(); err != nil {
					t.Fatal(err)
				}
			}
			sending.AddHook(sent)
			rdb.AddHook(done)
			client := actors.NewClient(sending)
			var messages []turnstile.Message
			for _, id := range ids {
				messages = append(messages, text(id))
				if _, err := receipt.Input(t.Context(), client.Session(main), text(id)); err != nil {
					t.Fatal(err)
				}
			}
			want := sent.all()
			w, err := worker.New(rdb, instant{}, worker.Config{
				Name: "w", DrainTimeout: time.Minute, // it waits for the turn's complete end
				Logger: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, id := range ids {
				if _, err := client.Session(main).Wait(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			expect.OK(t, w.Stop(t.Context()))
			want = append(want, done.all()...)

			s := explore.NewSearch(&explore.Configuration{
				Sessions: []string{main}, Processes: list(sender("sender", messages...), working("worker1", behaviour{})),
			}, database(t), bubble(t))
			schedule := strings.Repeat("sender ", len(want)-len(done.all())) + strings.Repeat("worker1 ", len(done.all()))
			r, err := s.Replay(schedule, nil)
			if err != nil {
				t.Fatalf("%v; the real ones send %v", err, want)
			}
			if got := r.Calls(); !slices.Equal(got, want) {
				t.Errorf("the programs send\n%v\nthe real ones\n%v", got, want)
			}
		})
	}
}
