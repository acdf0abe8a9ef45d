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

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A worker that dies in mid-sweep costs the others some seconds, not an interval; one
// that lives keeps the sweep to itself, and the interval is kept behind it.
func TestSweepOfADeadWorker(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	members := make([]redis.Z, 1600)
	for i := range members {
		members[i] = redis.Z{Score: 1, Member: fmt.Sprint("s", i)}
	}
	expect.OK(t, b.Redis.ZAdd(b.Ctx, rediskey.Sessions, members...).Err())
	timer := rediskey.Timer("sweep")

	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	scans := faults.GateReply(redistest.Named("zscan"))
	ctx, die := context.WithCancel(b.Ctx)
	dead := make(chan error, 1)
	go func() {
		_, _, err := b.Worker.Sweep(ctx, time.Minute)
		dead <- err
	}()
	<-scans.Arrived()
	die()
	if err := <-dead; !errors.Is(err, context.Canceled) {
		t.Fatalf("error: %v", err)
	}
	if left := b.Redis.PTTL(b.Ctx, timer).Val(); left > 5*time.Second {
		t.Errorf("the next sweep is in %s", left)
	}
	faults.Clear()
	_, pause, err := actors.NewWorker(t, b.Redis, "two").Sweep(b.Ctx, time.Minute)
	expect.OK(t, err)
	if pause > 5*time.Second {
		t.Errorf("another worker comes again in %s", pause)
	}

	b.Redis.Del(b.Ctx, timer)
	faults.ResetCounts()
	_, pause, err = b.Worker.Sweep(b.Ctx, time.Minute)
	expect.OK(t, err)
	if n := faults.CountNamed("pexpire"); n < 3 {
		t.Errorf("it was extended %d times", n)
	}
	for what, left := range map[string]time.Duration{"the key's": b.Redis.PTTL(b.Ctx, timer).Val(), "its own": pause} {
		if left < 55*time.Second || left > time.Minute {
			t.Errorf("%s pause behind a whole sweep is %s", what, left)
		}
	}
}

// longest notes the most arguments that a command by a name had.
type longest struct {
	name string
	mu   sync.Mutex
	args int
}

func (l *longest) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *longest) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == l.name {
			l.mu.Lock()
			l.args = max(l.args, len(cmd.Args()))
			l.mu.Unlock()
		}
		return next(ctx, cmd)
	}
}

func (l *longest) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// However many names are taken off the list, no command has more than a batch of them.
func TestUnregisterInBatches(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const n = 10_000
	names := make([]any, n)
	for i := range names {
		names[i] = rediskey.Queue(fmt.Sprint("s", i))
	}
	expect.OK(t, b.Redis.SAdd(b.Ctx, rediskey.AllQueues, names...).Err())
	srem := &longest{name: "srem"}
	b.Redis.AddHook(srem)
	gone, err := b.Worker.Unregister(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "names", gone, n)
	expect.Equal(t, "left", b.Redis.SCard(b.Ctx, rediskey.AllQueues).Val(), 0)
	if srem.args > 1100 {
		t.Errorf("an SREM with %d arguments", srem.args)
	}
}

// Redis' clock was ahead and has fallen back: a session that became ready meanwhile
// does not stay behind all that come now.
func TestReadyUnderAClockThatFellBack(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	ahead := float64(b.Redis.Time(b.Ctx).Val().Add(time.Hour).UnixMilli())
	expect.OK(t, b.Redis.ZAdd(b.Ctx, rediskey.Ready, redis.Z{Score: ahead, Member: actors.Key}).Err())
	b.Reap()
	for i := range 3 {
		_, err := b.Client.Submit(b.Ctx, fmt.Sprint("later", i), session.Message{Text: "x"})
		expect.OK(t, err)
	}
	sessions, err := b.Worker.Pop(b.Ctx, 1)
	expect.OK(t, err)
	if !slices.Equal(sessions, []string{actors.Key}) {
		t.Errorf("popped %q before the one that was there", sessions)
	}
	b.Reap()
	expect.Equal(t, "ready again, though it was taken", b.IsIn(rediskey.Ready, actors.Key), false)
}
