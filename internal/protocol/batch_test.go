package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/lease"
	"turnstile/internal/protocol/rediskey"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// gathering is a number of sessions with messages 0, 1 and 2.
type gathering struct {
	*actors.Bench
	names []string
}

func gather(t *testing.T, n int) *gathering { t.Helper(); return gatherOn(t, redistest.New(t), n) }

func gatherOn(t *testing.T, rdb redis.UniversalClient, n int) *gathering {
	t.Helper()
	c := &gathering{Bench: actors.BenchOn(t, rdb, func(c *protocol.Config) { c.Immediate = true })}
	for i := range n {
		name := fmt.Sprint("crowd:", i)
		c.names = append(c.names, name)
		for j := range 3 {
			_, err := receipt.Input(c.Ctx, c.Client.Session(name), turnstile.Message{ID: fmt.Sprint(j), Text: fmt.Sprint(name, " ", j)})
			expect.OK(t, err)
		}
	}
	return c
}

// finishAll ends all turns at once, in shared commands: a gate holds the first calls until the
// others wait.
func (c *gathering) finishAll(claims []*protocol.Claim) (more []bool, errs []error) {
	c.Helper()
	faults := &redistest.Faults{}
	c.Redis.AddHook(faults)
	gate := faults.Gate(actors.Script("finish"))
	more, errs = make([]bool, len(claims)), make([]error, len(claims))
	var all sync.WaitGroup
	for i, h := range claims {
		all.Go(func() { more[i], errs[i] = h.Finish(c.Ctx, c.Done(h)) })
	}
	for range 3 { // that many requests are in flight at once
		<-gate.Arrived()
	}
	expect.Soon(c, "the others to wait for a request to land", func() bool { return c.Worker.Waiting() == len(claims)-3 })
	gate.Release()
	all.Wait()
	faults.Clear()
	return more, errs
}

// ends watches the commands of the fast path of finish.
type ends struct {
	commands, most int
	after          func(cmd redis.Cmder, calls int) error // nil: its result stays as it is

	mu sync.Mutex
}

func (e *ends) around(cmds []redis.Cmder, send func() error) error {
	err := send()
	is := redistest.Script(protocol.Scripts["finish_fast"].Hash())
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, cmd := range cmds {
		if !is(cmd) || cmd.Err() != nil {
			continue
		}
		answers, _ := cmd.(redistest.Reply).Slice()
		e.commands++
		e.most = max(e.most, len(answers))
		if e.after != nil {
			if wrong := e.after(cmd, len(answers)); wrong != nil {
				cmd.SetErr(wrong)
				err = wrong
			}
		}
	}
	return err
}

// Turns of many sessions end in a few commands. Each session continues with its own next message, and
// an error of one does not affect the others.
func TestManyFinishInABatch(t *testing.T) {
	t.Parallel()
	c := gather(t, 50)
	claims, err := c.Worker.Claim(c.Ctx, c.names)
	expect.OK(t, err)
	expect.Equal(t, "claimed", len(claims), 50)
	spoilt, lost, paused, gone := claims[10], claims[20], claims[30], claims[40]
	spoil(c.Bench, rediskey.For(spoilt.Session()).Transcript(spoilt.Turn().TranscriptID))
	expect.OK(t, c.Redis.Del(c.Ctx, rediskey.For(lost.Session()).Sentinel()).Err())
	expect.OK(t, c.Inspector().PauseQueue(rediskey.Queue(paused.Session())))
	expect.OK(t, c.Redis.Del(c.Ctx, rediskey.For(gone.Session()).Task(rediskey.TaskID(gone.Session(), "1"))).Err())
	watch := &ends{}
	c.Redis.AddHook(actors.Hook(watch.around))

	more, errs := c.finishAll(claims)
	if watch.commands > 12 || watch.most < 30 { // some twice: Redis did not know the script
		t.Errorf("%d commands, for %d turns at most", watch.commands, watch.most)
	}
	for i, h := range claims {
		want := "1"
		switch h {
		case spoilt:
			if errs[i] == nil || errors.Is(errs[i], lease.ErrLost) {
				t.Errorf("with a transcript of a wrong type: %v", errs[i])
			}
			continue
		case lost:
			if !errors.Is(errs[i], lease.ErrLost) {
				t.Errorf("without a sentinel: %v", errs[i])
			}
			continue
		case paused:
			expect.Equal(t, "more of a paused session", more[i], false)
			expect.OK(t, errs[i])
			continue
		case gone:
			want = "2"
		}
		expect.OK(t, errs[i])
		if turn := h.Turn(); !more[i] || turn.Message.ID != want || turn.Message.Text != h.Session()+" "+want {
			t.Errorf("%s continues with %q of %q", h.Session(), turn.Message.ID, turn.Message.Text)
		}
		entries, err := actors.Transcript(c.Ctx, c.Client.Session(h.Session()), h.Turn().TranscriptID)
		expect.OK(t, err)
		if len(entries) != 2 || entries[0].Text != h.Session()+" 0" {
			t.Errorf("%s: %v in its transcript", h.Session(), entries)
		}
	}
}

// The reply to a shared command is lost, the server has lost the script, or it refuses the command
// before or after running it. Each turn ends once.
func TestBatchOfFinishesWithFaults(t *testing.T) {
	t.Parallel()
	once := func(err error) func(redis.Cmder, int) error {
		done := false
		return func(_ redis.Cmder, calls int) error {
			if done || calls < 10 {
				return nil
			}
			done = true
			return err
		}
	}
	for name, after := range map[string]func(redis.Cmder, int) error{
		"lost reply":           once(redistest.ErrLostReply),
		"refused in the midst": once(redistest.ReplyError("ERR user_script:1: what no script does")),
		"script flushed":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := gather(t, 20)
			claims, err := c.Worker.Claim(c.Ctx, c.names)
			expect.OK(t, err)
			watch := &ends{after: after}
			c.Redis.AddHook(actors.Hook(watch.around))
			if after == nil {
				unknown(c.Redis)
			}
			var ran []string
			for len(claims) > 0 {
				for _, h := range claims {
					ran = append(ran, h.Turn().Message.Text)
				}
				more, errs := c.finishAll(claims)
				expect.OK(t, errors.Join(errs...))
				i := -1
				claims = slices.DeleteFunc(claims, func(*protocol.Claim) bool { i++; return !more[i] })
			}
			var want []string
			for j := range 3 {
				for _, s := range c.names {
					want = append(want, fmt.Sprint(s, " ", j))
				}
			}
			expect.List(t, "turns", ran, want...)
			for _, s := range c.names {
				info, err := c.Client.Session(s).Info(c.Ctx)
				expect.OK(t, err)
				entries, err := actors.Transcript(c.Ctx, c.Client.Session(s), info.TranscriptID)
				expect.OK(t, err)
				expect.Equal(t, "entries of "+s, len(entries), 6)
				queue, err := c.Inspector().GetQueueInfo(rediskey.Queue(s))
				expect.OK(t, err)
				expect.Equal(t, "processed of "+s, queue.Processed, 3)
			}
		})
	}
}

// unknown makes Redis not know the next script of a batch, as after a restart. Other tests use the
// server, so it changes the hash in the call.
func unknown(rdb redis.UniversalClient) { rdb.AddHook(&forgetful{}) }

type forgetful struct{ once sync.Once }

func (f *forgetful) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *forgetful) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (f *forgetful) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	is := redistest.Script(protocol.Scripts["finish_fast"].Hash())
	return func(ctx context.Context, cmd redis.Cmder) error {
		if is(cmd) && cmd.Args()[2].(int) > 10*13 { // one that several share
			f.once.Do(func() { cmd.Args()[1] = "0000000000000000000000000000000000000000" })
		}
		return next(ctx, cmd)
	}
}

// Sessions are claimed in a batch, and the error names one that Redis refuses to read.
func TestManyAreClaimedInABatch(t *testing.T) {
	t.Parallel()
	c := gather(t, 70)
	spoil(c.Bench, rediskey.For(c.names[5]).Run())
	expect.OK(t, c.Inspector().PauseQueue(rediskey.Queue(c.names[6])))
	other := actors.NewWorker(t, c.Redis, "other")
	_, err := other.Claim(c.Ctx, c.names[7:8])
	expect.OK(t, err)
	faults := &redistest.Faults{}
	c.Redis.AddHook(faults)
	claims, err := c.Worker.Claim(c.Ctx, c.names)
	if !errors.Is(err, protocol.ErrBroken) {
		t.Errorf("with one of a wrong type: %v", err)
	}
	if n := faults.CountNamed("evalsha") + faults.CountNamed("eval"); n > 10 {
		t.Errorf("%d commands", n)
	}
	var got []string
	for _, h := range claims {
		got = append(got, h.Session())
		if h.Turn().Message.Text != h.Session()+" 0" {
			t.Errorf("%s was claimed with %q", h.Session(), h.Turn().Message.Text)
		}
	}
	expect.List(t, "claimed", got, slices.Delete(slices.Clone(c.names), 5, 8)...)
}

// If Redis takes no writes, no claim of a batch succeeds, and none leaves a trace. A full Redis
// lets all turns end. A Redis that lacks a replica it needs lets none end until it has one.
func TestManyWhenRedisTakesNoWrites(t *testing.T) {
	t.Parallel()
	for setting, endable := range map[string]bool{"maxmemory": true, "min-replicas-to-write": false} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartServer(t)
			set := func(value string) { expect.OK(t, server.Client().ConfigSet(t.Context(), setting, value).Err()) }
			c := gatherOn(t, server.Client(), 10)
			before := c.Dump()
			set("1")
			claims, err := c.Worker.Claim(c.Ctx, c.names)
			set("0")
			if err == nil || errors.Is(err, protocol.ErrBroken) || len(claims) > 0 {
				t.Errorf("%d claimed, %v", len(claims), err)
			}
			actors.Same(t, "a refused claim", before, c.Dump())

			claims, err = c.Worker.Claim(c.Ctx, c.names)
			expect.OK(t, err)
			before = c.Dump()
			set("1")
			if !endable {
				short, cancel := context.WithTimeout(c.Ctx, 30*time.Millisecond)
				defer cancel()
				for _, h := range claims {
					if _, err := h.Finish(short, c.Done(h)); err == nil {
						t.Errorf("%s has ended", h.Session())
					}
				}
				actors.Same(t, "a refused end", before, c.Dump())
				set("0")
			}
			more, errs := c.finishAll(claims)
			expect.OK(t, errors.Join(errs...))
			for i, h := range claims {
				if turn := h.Turn(); !more[i] || turn.Message.ID != "1" {
					t.Errorf("%s continues with %q", h.Session(), turn.Message.ID)
				}
			}
		})
	}
}
