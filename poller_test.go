package turnstile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// reads watches how a client reads streams.
type reads struct {
	mu      sync.Mutex
	blocked int             // reads that occupy a connection now
	most    int             // of them at once
	longest int             // of the pipelines
	streams map[string]bool // that were read, with a connection or without
}

func (r *reads) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *reads) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "xread" || !slices.Contains(cmd.Args(), any("block")) {
			return next(ctx, cmd)
		}
		r.block(1, cmd)
		defer r.block(-1, cmd)
		return next(ctx, cmd)
	}
}

func (r *reads) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.mu.Lock()
		for _, cmd := range cmds {
			if actors.Script("events_page")(cmd) {
				r.note(cmd)
				r.longest = max(r.longest, len(cmds))
			}
		}
		r.mu.Unlock()
		return next(ctx, cmds)
	}
}

func (r *reads) block(n int, cmd redis.Cmder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blocked += n
	r.most = max(r.most, r.blocked)
	r.note(cmd)
}

// note notes the stream of a read. r.mu is held.
func (r *reads) note(cmd redis.Cmder) {
	if r.streams == nil {
		r.streams = map[string]bool{}
	}
	args := cmd.Args()
	stream, _ := args[len(args)-2].(string)
	if cmd.Name() != "xread" {
		stream, _ = args[3].(string)
	}
	r.streams[stream] = true
}

// waiting returns how many streams were read so far.
func (r *reads) waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.streams)
}

func (r *reads) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.streams)
}

// clientOf makes a client with that many connections to the bench's database.
func clientOf(t *testing.T, url string, connections int, hook redis.Hook) *actors.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	expect.OK(t, err)
	options.PoolSize, options.PoolTimeout = connections, 30*time.Second
	rdb := redis.NewClient(options)
	t.Cleanup(func() { rdb.Close() })
	rdb.AddHook(hook)
	return actors.NewClient(rdb)
}

// Waits that share a client leave half of its connections to other calls, however many they are,
// and each gets its outcome.
func TestManyWaitsLeaveConnections(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{10, 1} {
		t.Run(fmt.Sprint(connections), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			hook := &reads{}
			client := clientOf(t, redistest.URL(t), connections, hook)
			const n = 300
			keys := make([]string, n)
			for i := range keys {
				keys[i] = fmt.Sprint("s", i)
				_, err := receipt.Input(b.Ctx, client.Session(keys[i]), turnstile.Message{ID: "m", Text: keys[i]})
				expect.OK(t, err)
			}
			var waits sync.WaitGroup
			for i, s := range keys {
				waits.Go(func() {
					said := "re: " + s
					wait := func(ctx context.Context, s, id string) (session.Outcome, error) {
						return client.Session(s).Wait(ctx, id)
					}
					if i%2 == 0 {
						said = ""
						wait = func(ctx context.Context, s, id string) (session.Outcome, error) {
							return actors.Follow(ctx, client.Session(s), id, func(e session.Event) { said += e.Text })
						}
					}
					o, err := wait(b.Ctx, s, "m")
					if err != nil || o.Reply != "re: "+s || said != o.Reply {
						t.Errorf("%s: %v, %+v, seen %q", s, err, o, said)
					}
				})
			}
			expect.Soon(t, "the waits", func() bool { return hook.waiting() == n })
			for i := range 20 {
				_, err := receipt.Input(b.Ctx, client.Session(fmt.Sprint("other", i)), turnstile.Message{Text: "x"})
				expect.OK(t, err)
				r, err := receipt.Input(b.Ctx, client.Session(keys[i]), turnstile.Message{Text: "/title"})
				expect.OK(t, err)
				expect.Equal(t, "title", r.Reply, "The conversation has no title. /title TEXT gives it one.")
			}
			claims, err := b.Worker.Claim(b.Ctx, keys)
			expect.OK(t, err)
			expect.Equal(t, "claims", len(claims), n)
			for _, h := range claims {
				expect.OK(t, h.Promote(b.Ctx))
				expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: "text", Turn: h.Turn().ID, Text: "re"}}))
				b.Finish(h)
			}
			waits.Wait()
			expect.Equal(t, "connections in use at once", hook.most, connections/2)
			if hook.longest > 50 {
				t.Errorf("a pipeline of %d reads", hook.longest)
			}
		})
	}
}

// A wait without a connection ends with its context, at once, and so does its poller.
func TestWaitWithoutAConnectionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	hook := &reads{}
	client := clientOf(t, redistest.URL(t), 1, hook)
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(b.Ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := client.Session(actors.Key).Wait(ctx, "a")
		ended <- err
	}()
	expect.Soon(t, "the wait", func() bool { return hook.waiting() == 1 })
	begin := time.Now()
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("error: %v", err)
	}
	if took := time.Since(begin); took > expect.Lease(time.Second) {
		t.Errorf("it took %s", took)
	}
	expect.List(t, "runs after the wait", b.Drain(), "a")
}

// An unreadable stream affects its own wait only.
func TestWaitBesideABrokenStream(t *testing.T) {
	t.Parallel()
	redistest.Real(t) // the embedded server keeps waiting for a key that is no stream any more
	b := actors.NewBench(t)
	hook := &reads{}
	client := clientOf(t, redistest.URL(t), 1, hook)
	got := make(chan error, 1)
	b.Say("a")
	go func() {
		_, err := client.Session(actors.Key).Wait(b.Ctx, "a")
		got <- err
	}()
	_, err := receipt.Input(b.Ctx, client.Session("broken"), turnstile.Message{ID: "m", Text: "x"})
	expect.OK(t, err)
	broken := make(chan error, 1)
	go func() {
		_, err := client.Session("broken").Wait(b.Ctx, "m")
		broken <- err
	}()
	expect.Soon(t, "the waits", func() bool { return hook.waiting() == 2 })
	expect.OK(t, b.Redis.Set(b.Ctx, strings.Replace(b.Keys.Events(), actors.Key, "broken", 1), "not a stream", 0).Err())
	if err := <-broken; err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("error: %v", err)
	}
	expect.List(t, "runs", b.Drain(), "a")
	expect.OK(t, <-got)
}

// A follower without a connection gets events soon, not only with the next look at the task.
func TestFollowWithoutAConnection(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	hook := &reads{}
	client := clientOf(t, redistest.URL(t), 1, hook)
	b.Say("a")
	h := b.Start()
	seen, ended := make(chan string), make(chan error, 1)
	go func() {
		_, err := actors.Follow(b.Ctx, client.Session(actors.Key), "a", func(e session.Event) {
			if e.Text != "" {
				seen <- e.Text
			}
		})
		ended <- err
	}()
	const n = 10
	begin := time.Now()
	for i := range n {
		hook.forget()
		expect.Soon(t, "the next look", func() bool { return hook.waiting() == 1 })
		expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: "thought", Turn: h.Turn().ID, Text: fmt.Sprint(i)}}))
		expect.Equal(t, "seen", <-seen, fmt.Sprint(i))
	}
	if took := time.Since(begin); took > 15*time.Second { // each by itself would take 5 s
		t.Errorf("%d events took %s", n, took)
	}
	_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone})
	expect.OK(t, err)
	expect.OK(t, <-ended)
}
