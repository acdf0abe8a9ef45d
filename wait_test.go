package turnstile_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A wait lasts through a crash, a retry and a drain.
func TestWait(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	got := b.WaitFor("a")
	b.Start()
	b.Die()
	h := b.Start()
	expect.OK(t, h.Park(b.Ctx, protocol.Parking{Failed: errors.New("flaky")}))
	h = b.Start()
	expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
	h = b.Start()
	b.Finish(h)
	o := <-got
	expect.Equal(t, "status", o.Status, session.StatusDone)
	expect.Equal(t, "reply", o.Reply, "re: a")
	expect.Equal(t, "turn", o.Turn, h.Turn().ID)
	expect.Equal(t, "session id", o.TranscriptID, h.Turn().TranscriptID)
	expect.Equal(t, "session", o.Session, actors.Key)
	expect.Equal(t, "id", o.ID, "a")
	expect.Equal(t, "stored result", b.Outcome("a"), o)
	again, err := b.Client.Session(actors.Key).Wait(b.Ctx, "a")
	expect.OK(t, err)
	expect.Equal(t, "wait after the end", again, o)
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(b.Ctx)
	faults := &redistest.Faults{}
	reads := faults.Gate(redistest.Named("xread"))
	b.Redis.AddHook(faults)
	ended := make(chan error, 1)
	go func() {
		_, err := b.Client.Session(actors.Key).Wait(ctx, "a")
		ended <- err
	}()
	<-reads.Arrived()
	cancel(why)
	reads.Release()
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("error: %v", err)
	}
	expect.List(t, "runs after the wait", b.Drain(), "a")
}

func TestUnknownMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	began := time.Now()
	for range 2 { // without events, then with them
		if _, _, err := actors.Result(b.Ctx, b.Client.Session(actors.Key), "nope"); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("result: %v", err)
		}
		if _, err := b.Client.Session(actors.Key).Wait(b.Ctx, "nope"); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("wait: %v", err)
		}
		if _, err := actors.Follow(b.Ctx, b.Client.Session(actors.Key), "nope", func(session.Event) {}); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("follow: %v", err)
		}
		b.Say("a")
		b.Drain()
	}
	if took := time.Since(began); took > expect.Lease(4*time.Second) {
		t.Errorf("it took %s to find out", took)
	}
}

// Without retention the events are the only trace of the end.
func TestWaitWithoutRetention(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.Retention = 0 })
	b.SayAll("a", "b")
	got := b.WaitFor("b")
	b.Drain()
	expect.Equal(t, "reply", (<-got).Reply, "re: b")
	expect.Equal(t, "kept", b.State("a")+b.State("b"), "")
	if _, _, err := actors.Result(b.Ctx, b.Client.Session(actors.Key), "a"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("result: %v", err)
	}
	o, err := b.Client.Session(actors.Key).Wait(b.Ctx, "a")
	expect.OK(t, err)
	expect.Equal(t, "wait after the end", o.Reply, "re: a")
	b.Redis.Del(b.Ctx, b.Keys.Events())
	if _, err := b.Client.Session(actors.Key).Wait(b.Ctx, "a"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("wait after the events were trimmed: %v", err)
	}
	r := b.Say("a")
	expect.Equal(t, "the same id again", string(r.Status)+" "+r.Reason, "refused expired")
}

// The stored result ends a wait when the events are trimmed, also in the middle of reading them.
func TestWaitWithTrimmedEvents(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	faults := &redistest.Faults{}
	b.Say("a")
	h := b.Start()
	reads := faults.Gate(redistest.Named("xread"))
	b.Redis.AddHook(faults)
	got := b.WaitFor("a")
	<-reads.Arrived()
	b.Finish(h)
	b.Redis.XTrimMaxLen(b.Ctx, b.Keys.Events(), 0)
	reads.Release()
	expect.Equal(t, "reply", (<-got).Reply, "re: a")
	o, err := actors.Follow(b.Ctx, b.Client.Session(actors.Key), "a", func(session.Event) {})
	expect.OK(t, err)
	expect.Equal(t, "reply", o.Reply, "re: a")
}

// A message that an operator deletes while a sender waits is unknown then.
func TestWaitForADeletedMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	reading := &redistest.Faults{}
	reads := reading.Gate(redistest.Named("xread"))
	b.Redis.AddHook(reading)
	ended := make(chan error, 1)
	go func() {
		_, err := b.Client.Session(actors.Key).Wait(b.Ctx, "a")
		ended <- err
	}()
	<-reads.Arrived()
	expect.OK(t, b.Inspector().DeleteTask(rediskey.Queue(actors.Key), b.Task("a")))
	reads.Release()
	if err := <-ended; !errors.Is(err, session.ErrNotFound) {
		t.Errorf("error: %v", err)
	}
}

// The outcomes of tasks that another program ended.
func TestOutcomesOfOthers(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	expect.OK(t, b.Inspector().ArchiveTask(rediskey.Queue(actors.Key), b.Task("a")))
	o := b.Outcome("a")
	expect.Equal(t, "status", o.Status, session.StatusFailed)
	expect.Equal(t, "error", o.Error, "archived by an operator")
	b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("b")), "state", "completed", "result", "plain")
	expect.Equal(t, "reply of a stock asynq.Server", b.Outcome("b").Reply, "plain")
}

// A server that becomes a replica ends the reads that block on it. The wait continues.
func TestWaitOutlivesARoleChange(t *testing.T) {
	t.Parallel()
	one := redistest.StartServer(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := strings.Cut(one.Addr(), ":")
	other := redistest.StartServer(t, "--repl-diskless-sync-delay", "0", "--replicaof", host+" "+port)
	b := actors.BenchOn(t, one.Client())
	says := func(server *redistest.Server, text string) func() bool {
		return func() bool {
			info, err := server.Client().Info(b.Ctx, "replication").Result()
			expect.OK(t, err)
			return strings.Contains(info, text+"\r\n")
		}
	}
	failOver := func(from, to *redistest.Server) {
		host, port, _ := strings.Cut(to.Addr(), ":")
		expect.Soon(t, "a replica in step", func() bool {
			info, err := from.Client().Info(b.Ctx, "replication").Result()
			expect.OK(t, err)
			return strings.Contains(info, "port="+port+",state=online,")
		})
		expect.OK(t, from.Client().Do(b.Ctx, "FAILOVER", "TO", host, port).Err())
		expect.Soon(t, "the other role", says(from, "role:slave"))
		expect.Soon(t, "the new primary", says(to, "role:master"))
	}
	b.Say("m")
	h := b.Start()
	got := b.WaitFor("m")
	expect.Soon(t, "a read that blocks", func() bool {
		list, err := b.Redis.Do(b.Ctx, "CLIENT", "LIST").Text()
		expect.OK(t, err)
		return strings.Contains(list, "flags=b ")
	})
	failOver(one, other)
	failOver(other, one)
	b.Finish(h)
	expect.Equal(t, "reply", (<-got).Reply, "re: m")
}
