package redistest_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/test/redistest"
)

func faulty(t *testing.T) (redis.UniversalClient, *redistest.Faults) {
	t.Helper()
	client, faults := redistest.New(t), &redistest.Faults{}
	client.AddHook(faults)
	return client, faults
}

func TestLoseReply(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client, faults := faulty(t)
	faults.LoseReply(redistest.Named("incr"), 1)
	err := client.Incr(ctx, "n").Err()
	var netErr net.Error
	if !errors.Is(err, redistest.ErrLostReply) || !errors.As(err, &netErr) {
		t.Errorf("the caller sees %v", err)
	}
	if n, err := client.Incr(ctx, "n").Result(); n != 2 || err != nil {
		t.Errorf("the lost one was not carried out, or the second was lost too: %d, %v", n, err)
	}
}

func TestRunTwice(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client, faults := faulty(t)
	script := redis.NewScript(`return redis.call('INCR', KEYS[1])`)
	faults.RunTwice(redistest.Script(script.Hash()), 1)
	if n, err := script.Run(ctx, client, []string{"s"}).Int(); n != 2 || err != nil {
		t.Errorf("the script's second answer is %d, %v", n, err)
	}
	if n, err := script.Run(ctx, client, []string{"s"}).Int(); n != 3 || err != nil {
		t.Errorf("only the first call is doubled: %d, %v", n, err)
	}

	faults.RunTwice(redistest.Named("rpush"), 1)
	var length *redis.IntCmd
	if _, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "other", "x", 0)
		length = p.RPush(ctx, "l", "x")
		return nil
	}); err != nil || length.Val() != 2 {
		t.Errorf("a doubled pipeline: length %d, %v", length.Val(), err)
	}
	if _, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		length = p.RPush(ctx, "l", "x")
		return nil
	}); err != nil || length.Val() != 3 {
		t.Errorf("a transaction after it: length %d, %v", length.Val(), err)
	}
	faults.RunTwice(redistest.Named("rpush"), 1)
	if _, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		length = p.RPush(ctx, "l", "x")
		return nil
	}); err != nil || length.Val() != 5 {
		t.Errorf("a doubled transaction: length %d, %v", length.Val(), err)
	}
}

func TestFailBefore(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client, faults := faulty(t)
	broken := errors.New("broken")
	faults.FailBefore(redistest.Named("set"), 1, broken)
	if err := client.Set(ctx, "k", "v", 0).Err(); !errors.Is(err, broken) {
		t.Errorf("the caller sees %v", err)
	}
	if n := client.Exists(ctx, "k").Val(); n != 0 {
		t.Error("the command was sent")
	}
	if err := client.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Errorf("the second fails too: %v", err)
	}
	faults.FailBefore(redistest.Any, -1, broken)
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Del(ctx, "k")
		return nil
	})
	if !errors.Is(err, broken) {
		t.Errorf("a pipeline: %v", err)
	}
	faults.Clear()
	if n := client.Exists(ctx, "k").Val(); n != 1 {
		t.Error("the pipeline was sent")
	}
}

func TestGateAndGateReply(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client, faults := faulty(t)
	unsent, unanswered := faults.Gate(redistest.Named("set")), faults.GateReply(redistest.Named("append"))
	done := make(chan error, 2)
	go func() { done <- client.Set(ctx, "set", "v", 0).Err() }()
	go func() { done <- client.Append(ctx, "append", "v").Err() }()
	<-unsent.Arrived()
	<-unanswered.Arrived()
	if n := client.Exists(ctx, "set").Val(); n != 0 {
		t.Error("the gated command was sent")
	}
	if n := client.Exists(ctx, "append").Val(); n != 1 {
		t.Error("the command with the gated reply was not sent")
	}
	select {
	case err := <-done:
		t.Errorf("a command passed the closed gate: %v", err)
	default:
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := client.Set(cancelled, "set", "v", 0).Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("at the gate with an ended context: %v", err)
	}
	unsent.Release()
	unsent.Release()
	unanswered.Release()
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestDelayAndCounts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client, faults := faulty(t)
	faults.Delay(redistest.Named("get"), 20*time.Millisecond)
	begin := time.Now()
	client.Get(ctx, "k")
	if took := time.Since(begin); took < 20*time.Millisecond {
		t.Errorf("took %s", took)
	}
	faults.ResetCounts()
	client.Set(ctx, "k", "v", 0)
	if _, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "k", "v", 0)
		p.Del(ctx, "k")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n, sets := faults.CountCommands(), faults.CountNamed("set"); n != 3 || sets != 2 {
		t.Errorf("counted %d commands, %d of them set", n, sets)
	}
}
