package redistest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	clusterSlots   = 16384
	clusterTimeout = 30 * time.Second
)

// Cluster is a Redis Cluster of three masters that belongs to one test.
type Cluster struct {
	// Nodes are the masters, in the order of their slots.
	Nodes []*Server

	once   sync.Once
	client *redis.ClusterClient
}

// StartCluster starts three masters on loopback that have all slots, and returns when each of them
// reports the cluster's state as ok: after about 2 s.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{}
	for range 3 {
		c.Nodes = append(c.Nodes, StartServer(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
			"--cluster-node-timeout", "5000", "--cluster-announce-ip", "127.0.0.1"))
	}
	t.Cleanup(func() {
		if c.client != nil {
			_ = c.client.Close()
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), clusterTimeout)
	defer cancel()
	if err := c.form(ctx); err != nil {
		t.Fatalf("redistest: form a cluster: %v", err)
	}
	for _, node := range c.Nodes {
		await(ctx, t, "a whole cluster as seen by "+node.Addr(), func() error { return c.whole(ctx, node) })
	}
	return c
}

func (c *Cluster) form(ctx context.Context) error {
	share := (clusterSlots + len(c.Nodes) - 1) / len(c.Nodes)
	for i, node := range c.Nodes {
		first, last := i*share, min((i+1)*share, clusterSlots)-1
		client := node.Client()
		// Each has a different epoch. Otherwise the masters would first have to settle a conflict.
		if err := client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return err
		}
		if err := client.ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
			return err
		}
	}
	for _, node := range c.Nodes[1:] {
		if err := node.Client().Do(ctx, "CLUSTER", "MEET", "127.0.0.1", c.Nodes[0].port).Err(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) whole(ctx context.Context, node *Server) error {
	info, err := node.Client().ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	for _, want := range []string{"cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:3", "cluster_size:3"} {
		if !strings.Contains(info, want+"\r\n") {
			return fmt.Errorf("not yet %s", want)
		}
	}
	return nil
}

// URL is the redis-cluster:// URL that names all masters.
func (c *Cluster) URL() string { return "redis-cluster://" + strings.Join(c.addrs(), ",") }

// Client is a client of the cluster, the same at every call. It is closed when the test ends.
func (c *Cluster) Client() *redis.ClusterClient {
	c.once.Do(func() {
		c.client = redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.addrs()})
	})
	return c.client
}

func (c *Cluster) addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		addrs[i] = node.Addr()
	}
	return addrs
}

// await repeats check until it returns nil, and fails t when ctx ends first.
func await(ctx context.Context, t testing.TB, what string, check func() error) {
	t.Helper()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("redistest: no %s: %v", what, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
