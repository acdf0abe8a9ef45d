package lab

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const clusterSlots = 16384

// StartCluster starts the nodes of a Redis Cluster without replicas and persistence, and returns when each of them knows
// all others and all slots. The first masters share the slots equally, except for those of apart: each group of keys has
// another master, without other slots. Stop the nodes also after an error.
func StartCluster(ctx context.Context, masters int, apart ...[]string) (nodes []*Server, err error) {
	var meet []any
	for range masters + len(apart) {
		bus, err := freeAddr(ctx) // the default, 10,000 above the server's port, may be no port
		if err != nil {
			return nodes, err
		}
		node, err := StartServer(ctx, None, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
			"--cluster-port", strconv.Itoa(bus.Port), "--cluster-announce-ip", "127.0.0.1")
		if err != nil {
			return nodes, err
		}
		if nodes = append(nodes, node); meet == nil {
			meet = []any{"CLUSTER", "MEET", "127.0.0.1", node.addr.Port, bus.Port}
		}
	}
	first := nodes[0].Client()
	defer first.Close()
	owners := map[int]int{}
	for i, keys := range apart {
		for _, key := range keys {
			slot, err := first.ClusterKeySlot(ctx, key).Result()
			if err != nil {
				return nodes, err
			}
			owners[int(slot)] = masters + i
		}
	}
	slots := make([][]int, len(nodes))
	for slot := range clusterSlots {
		owner, ok := owners[slot]
		if !ok {
			owner = slot * masters / clusterSlots
		}
		slots[owner] = append(slots[owner], slot)
	}
	for i, node := range nodes {
		rdb := node.Client()
		defer rdb.Close()
		// Each has a different epoch. Otherwise the masters would first have to settle a conflict.
		err := rdb.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err()
		if err == nil {
			err = rdb.ClusterAddSlots(ctx, slots[i]...).Err()
		}
		if err == nil && i > 0 {
			err = rdb.Do(ctx, meet...).Err()
		}
		if err != nil {
			return nodes, fmt.Errorf("form a cluster: %w", err)
		}
	}
	for _, node := range nodes {
		rdb := node.Client()
		defer rdb.Close()
		err := Until(ctx, "a whole cluster", 10*time.Millisecond, func() (bool, error) {
			info, err := rdb.ClusterInfo(ctx).Result()
			whole := true
			for _, want := range []string{"state:ok", "slots_ok:16384", fmt.Sprint("size:", len(nodes))} {
				whole = whole && strings.Contains(info, "cluster_"+want+"\r\n")
			}
			return whole, err
		})
		if err != nil {
			return nodes, err
		}
	}
	return nodes, nil
}
