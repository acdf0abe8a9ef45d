package redisconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// The reasons for which a reachable Redis is refused: ErrRights by package rights, the others by Check.
var (
	ErrTooOld  = errors.New("the Redis server is too old")
	ErrReplica = errors.New("the Redis server is a replica")
	ErrRights  = errors.New("the Redis user has too few rights")
	ErrScheme  = errors.New("the Redis server is of another kind than the URL says")
)

// minMajor is the oldest major version that the scripts support.
const minMajor = 7

// Check checks that the client's Redis is fit for use; on a cluster it checks every master. It
// returns an error if Redis is unreachable, older than 7.0 (ErrTooOld), a replica (ErrReplica), or
// a cluster's node or a sentinel at a redis:// URL (ErrScheme). The warnings, one line each, name
// the ways to lose data: an eviction policy other than noeviction, neither an append-only file nor
// save points, or parts of that file that Redis skipped when it started. The embedded server needs only to be reachable.
func Check(ctx context.Context, client redis.UniversalClient) (warnings []string, err error) {
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, err
	}
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return checkServer(ctx, client, "Redis", "standalone")
	}
	state, err := cluster.ClusterInfo(ctx).Result()
	if err != nil {
		return nil, err
	}
	if !strings.Contains(state, "cluster_state:ok") {
		return nil, errors.New("CLUSTERDOWN some slots have no master")
	}
	var mu sync.Mutex
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		found, err := checkServer(ctx, node, "Redis at "+node.Options().Addr, "cluster")
		mu.Lock()
		defer mu.Unlock()
		warnings = append(warnings, found...)
		return err
	})
	slices.Sort(warnings)
	return warnings, err
}

// checkServer checks one server. name identifies it in texts; mode is the mode that it must report:
// standalone or cluster.
func checkServer(ctx context.Context, client redis.Cmdable, name, mode string) ([]string, error) {
	server, err := info(ctx, client, "server")
	switch {
	case err != nil && strings.Contains(err.Error(), "is not supported"):
		return nil, nil // the embedded server has no such section
	case redis.HasErrorPrefix(err, "NOPERM"):
		return []string{name + " does not let this user call INFO: its version, role, eviction policy and persistence were not checked"}, nil
	case err != nil:
		return nil, err
	}
	version := server["redis_version"]
	if major, _, _ := strings.Cut(version, "."); atoi(major) < minMajor {
		return nil, fmt.Errorf("%w: %s has version %s, use %d.0 or newer", ErrTooOld, name, version, minMajor)
	}
	if is := cmp.Or(server["redis_mode"], server["server_mode"]); is != "" && is != mode { // server_mode: Valkey 8
		return nil, fmt.Errorf("%w: %s says that it is a %s; use redis-%[3]s:// in REDIS_URL", ErrScheme, name, is)
	}
	replication, err := info(ctx, client, "replication")
	if err != nil {
		return nil, err
	}
	if replication["role"] == "slave" {
		return nil, fmt.Errorf("%w: %s follows %s:%s; point REDIS_URL at its master, or use redis-sentinel://",
			ErrReplica, name, replication["master_host"], replication["master_port"])
	}

	var warnings []string
	memory, err := info(ctx, client, "memory")
	if err != nil {
		return nil, err
	}
	if policy := memory["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		warnings = append(warnings, fmt.Sprintf("%s evicts keys when it is full (maxmemory-policy %s) and may so lose messages: set maxmemory-policy noeviction", name, policy))
	}
	stats, err := info(ctx, client, "stats")
	if err != nil {
		return nil, err
	}
	if n := stats["unexpected_error_replies"]; n != "" && n != "0" { // errors of a replay, from 7.0 on
		warnings = append(warnings, fmt.Sprintf("%s skipped %s commands of its append-only file, or of its primary, and lacks what they stored; if its log says NOPERM, its default user lacks rights: see docs/security.md#redis-users", name, n))
	}
	warning, err := checkPersistence(ctx, client, name)
	if err != nil {
		return nil, err
	}
	if warning != "" {
		warnings = append(warnings, warning)
	}
	return warnings, nil
}

// checkPersistence returns a warning if the server may lose its data when it ends, or "".
func checkPersistence(ctx context.Context, client redis.Cmdable, name string) (warning string, err error) {
	persistence, err := info(ctx, client, "persistence")
	if err != nil {
		return "", err
	}
	if persistence["aof_enabled"] == "1" {
		return "", nil
	}
	// Hosted servers often forbid CONFIG.
	save, err := client.ConfigGet(ctx, "save").Result()
	var refused redis.Error
	switch {
	case errors.As(err, &refused):
		return name + " keeps no append-only file and does not reveal whether it has save points: make sure that it stores its data", nil
	case err != nil:
		return "", err
	case save["save"] == "":
		return name + " stores nothing on disk and loses every message when it ends: set appendonly yes", nil
	}
	return "", nil
}

// info reads one section of INFO.
func info(ctx context.Context, client redis.Cmdable, section string) (map[string]string, error) {
	text, err := client.Info(ctx, section).Result()
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// atoi returns 0 if s is not a number.
func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
