package script_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/redisconn"
	"turnstile/internal/redis/script"
	"turnstile/test/redistest"
)

// A refusal says that nothing was changed only if no earlier attempt was carried out. The client
// repeats commands by itself, as is go-redis' default.
func TestRefusalAfterALostReply(t *testing.T) {
	t.Parallel()
	for name, run := range runs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wire, s := &redistest.Wire{}, named(t)
			client := wire.Client(t, redistest.New(t))
			match := redistest.Named("eval", "evalsha")
			wire.Meet(match, redistest.Loading)
			if _, err := run(t.Context(), client, s, "key", "x"); !redisconn.Unchanged(err) || errors.Is(err, redisconn.ErrUnsure) {
				t.Errorf("refused four times: %v", err)
			}
			wire.LoseReply(match, redistest.Loading)
			if _, err := run(t.Context(), client, s, "key", "x"); redisconn.Unchanged(err) || !errors.Is(err, redisconn.ErrUnsure) {
				t.Errorf("refused after a lost reply: %v", err)
			}
			if n := wire.Heal(); n != 1 {
				t.Errorf("%d attempts reached the server", n)
			}
			wire.LoseReply(match, redistest.CarriedOut)
			if r, err := run(t.Context(), client, s, "key", "x"); err != nil || r.Text(0) != "key" {
				t.Errorf("a lost reply alone: %v, %v", r, err)
			}
			if n := wire.Heal(); n != 2 {
				t.Errorf("%d attempts reached the server", n)
			}
		})
	}
}

// Calls that share a command, and commands ahead of them in the same round trip, are repeated and
// refused together.
func TestRefusalOfSharedCommands(t *testing.T) {
	t.Parallel()
	wire, s, own := &redistest.Wire{}, each(t), named(t)
	client := wire.Client(t, redistest.New(t))
	b := script.NewBatcher(client, 1)
	ahead := func(p redis.Pipeliner) { p.Set(t.Context(), "ahead", "1", 0) }
	send := func() (all []*script.Call) {
		first := &script.Call{Script: own, Keys: []string{"own"}, Args: []any{"x"}}
		shared := calls(s, "", numbered(3)...)
		b.DoBehind(t.Context(), ahead, []*script.Call{first}, shared)
		return append(shared, first)
	}
	send() // Redis knows the scripts
	wire.LoseReply(redistest.Script(s.Hash()), redistest.ReadOnly)
	for i, call := range send() {
		if !call.Unsure || !errors.Is(call.Err, redisconn.ErrUnsure) {
			t.Errorf("call %d: %v", i, call.Err)
		}
	}
	wire.LoseReply(redistest.Script(s.Hash()), redistest.CarriedOut)
	client.Del(t.Context(), "ahead")
	for i, call := range send() {
		if !call.Unsure || call.Err != nil || call.Result == nil {
			t.Errorf("call %d, repeated: %v, %v", i, call.Result, call.Err)
		}
	}
	if client.Get(t.Context(), "ahead").Val() != "1" {
		t.Error("what was ahead of the calls was not sent")
	}
}

// A context that ends between two attempts ends the repeats, and the last error is the result.
func TestRepeatsEndWithTheContext(t *testing.T) {
	t.Parallel()
	client, s, faults := redistest.New(t), named(t), &redistest.Faults{}
	client.AddHook(faults)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	faults.FailBefore(redistest.Any, -1, redistest.ReplyError("LOADING"))
	if _, err := s.Run(ctx, client, []string{"key"}, "x"); !redis.HasErrorPrefix(err, "LOADING") {
		t.Errorf("the error is %v", err)
	}
	if n := faults.CountCommands(); n != 1 {
		t.Errorf("%d attempts", n)
	}
}

// If a caller's context ends while another one sends its item, the caller waits for it: an error
// would mean that it was not sent.
func TestGateWaitsForWhatIsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := make(chan struct{}), make(chan struct{})
		g := script.NewGate(1, func(_ context.Context, items []int) {
			if items[0] == 0 {
				<-first
			} else {
				<-second
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = g.Do(t.Context(), 0) }()
		synctest.Wait()
		go func() { _ = g.Do(t.Context(), 1) }() // it sends the third one's item, too
		synctest.Wait()
		told := make(chan error, 1)
		go func() { told <- g.Do(ctx, 2) }()
		synctest.Wait()
		close(first)
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case err := <-told:
			t.Errorf("told %v while its item was in flight", err)
			close(second)
		default:
			close(second)
			if err := <-told; err != nil {
				t.Errorf("told %v about what was sent", err)
			}
		}
		synctest.Wait()
	})
}
