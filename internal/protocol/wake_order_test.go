package protocol_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// On a Cluster the parts of a pipeline go to their nodes at once. A wake-up waits until the session
// is in the owned index: reap finds it there if the worker that pops it dies.
func TestOwnedBeforeReadyOnACluster(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	cluster := redistest.StartCluster(t)
	whole := cluster.Client()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: whole.Options().Addrs})
	t.Cleanup(func() { rdb.Close() })
	faults := &redistest.Faults{}
	rdb.OnNewNode(func(node *redis.Client) { node.AddHook(faults) })
	refused := errors.New("the node of the owned index is away")
	owned := func(cmd redis.Cmder) bool {
		return cmd.Name() == "zadd" && slices.Contains(cmd.Args(), any(rediskey.Owned))
	}
	for name, wake := range map[string]func(b, broken *actors.Bench) error{
		"a sender": func(_, broken *actors.Bench) error {
			_, err := receipt.Input(broken.Ctx, broken.Client.Session(actors.Key), turnstile.Message{ID: "a", Text: "a"})
			return err
		},
		"sweep": func(b, broken *actors.Bench) error {
			b.Enqueue("a")
			_, _, err := broken.Worker.Sweep(b.Ctx, time.Minute)
			return err
		},
		"due": func(b, broken *actors.Bench) error {
			b.Enqueue("a")
			now := b.Redis.Time(b.Ctx).Val().UnixMilli()
			b.Redis.ZAdd(b.Ctx, rediskey.Due, redis.Z{Score: float64(now), Member: actors.Key})
			_, err := broken.Worker.Due(b.Ctx)
			return err
		},
		"reap": func(b, broken *actors.Bench) error {
			b.Enqueue("a")
			b.Redis.ZAdd(b.Ctx, rediskey.Owned, redis.Z{Score: 1, Member: actors.Key})
			_, _, err := broken.Worker.Reap(b.Ctx)
			return err
		},
		"a release": func(b, broken *actors.Bench) error {
			b.SayAll("a", "b")
			b.Pop()
			claims, err := broken.Worker.Claim(b.Ctx, []string{actors.Key})
			expect.OK(b, err)
			expect.OK(b, claims[0].Promote(b.Ctx))
			_, err = claims[0].Finish(b.Ctx, protocol.End{Status: session.StatusDone, Release: true})
			return err
		},
		"what is put back": func(b, broken *actors.Bench) error {
			return broken.Worker.PutBack(b.Ctx, []string{actors.Key})
		},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // they share the cluster
			for _, node := range cluster.Nodes {
				expect.OK(t, node.Client().FlushAll(t.Context()).Err())
			}
			b, broken := actors.BenchOn(t, whole), actors.BenchOn(t, rdb)
			faults.FailBefore(owned, -1, refused)
			err := wake(b, broken)
			faults.Clear()
			if err == nil {
				t.Error("no error")
			}
			expect.Equal(t, "ready", b.IsIn(rediskey.Ready, actors.Key), false)
		})
	}
}
