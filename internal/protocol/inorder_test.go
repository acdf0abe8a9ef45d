package protocol_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// On a Cluster the parts of a pipeline go to their nodes at once. Whatever wakes a
// session waits until it is in the owned index: there it is found, should the one who
// takes it off the ready index die.
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
	for name, wake := range map[string]func(b, broken *bench) error{
		"a sender": func(_, broken *bench) error {
			_, err := broken.client.Submit(broken.ctx, key, session.Message{ID: "a", Text: "a"})
			return err
		},
		"sweep": func(b, broken *bench) error {
			b.enqueue("a")
			_, _, err := broken.c.Sweep(b.ctx, time.Minute)
			return err
		},
		"due": func(b, broken *bench) error {
			b.enqueue("a")
			now := b.rdb.Time(b.ctx).Val().UnixMilli()
			b.rdb.ZAdd(b.ctx, rediskey.Due, redis.Z{Score: float64(now), Member: key})
			_, err := broken.c.Due(b.ctx)
			return err
		},
		"reap": func(b, broken *bench) error {
			b.enqueue("a")
			b.rdb.ZAdd(b.ctx, rediskey.Owned, redis.Z{Score: 1, Member: key})
			_, _, err := broken.c.Reap(b.ctx)
			return err
		},
		"a release": func(b, broken *bench) error {
			b.sayAll("a", "b")
			b.pop()
			holds, err := broken.c.Claim(b.ctx, []string{key})
			expect.OK(b, err)
			expect.OK(b, holds[0].Promote(b.ctx))
			_, err = holds[0].Finish(b.ctx, sq.End{Status: session.StatusDone, Release: true})
			return err
		},
		"what is put back": func(b, broken *bench) error {
			return broken.c.PutBack(b.ctx, []string{key})
		},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // they share the cluster
			for _, node := range cluster.Nodes {
				expect.OK(t, node.Client().FlushAll(t.Context()).Err())
			}
			b, broken := benchOn(t, whole), benchOn(t, rdb)
			faults.FailBefore(owned, -1, refused)
			err := wake(b, broken)
			faults.Clear()
			if err == nil {
				t.Error("no error")
			}
			expect.Equal(t, "ready", b.isIn(rediskey.Ready, key), false)
		})
	}
}
