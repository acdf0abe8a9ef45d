package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	sentinelConfig  = "sentinel.conf"
	masterName      = "turnstile"
	failoverTimeout = 60 * time.Second
)

// Failover is a master with one replica, watched by one redis-sentinel. It belongs to one test.
type Failover struct {
	// Master and Replica are named after their roles at the start.
	Master, Replica *Server

	t        testing.TB
	sentinel *Server
}

// StartFailover starts the three servers and returns when the replica is in sync and redis-sentinel
// knows it.
func StartFailover(t testing.TB) *Failover {
	t.Helper()
	f := &Failover{t: t}
	f.Master = StartServer(t, "--repl-diskless-sync-delay", "0")
	f.Replica = StartServer(t, "--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1 "+strconv.Itoa(f.Master.port))
	ctx, cancel := context.WithTimeout(context.Background(), failoverTimeout)
	defer cancel()
	await(ctx, t, "replica in step", func() error {
		return says(ctx, f.Replica, "master_link_status:up")
	})

	var err error
	if f.sentinel, err = startSentinel(f.Master.port); err != nil {
		t.Fatalf("redistest: redis-sentinel: %v", err)
	}
	f.sentinel.t = t
	t.Cleanup(f.sentinel.remove)
	await(ctx, t, "replica known to redis-sentinel", func() error {
		replicas, err := f.sentinelDo(ctx, "SENTINEL", "REPLICAS", masterName)
		if err != nil {
			return err
		}
		if list, ok := replicas.([]any); !ok || len(list) != 1 {
			return fmt.Errorf("it returns %v", replicas)
		}
		return nil
	})
	return f
}

// startSentinel starts a redis-sentinel. Its settings are in a file that it rewrites.
func startSentinel(masterPort int) (*Server, error) {
	config := strings.Join([]string{
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1", masterName, masterPort),
		fmt.Sprintf("sentinel down-after-milliseconds %s 1000", masterName),
		fmt.Sprintf("sentinel failover-timeout %s 5000", masterName),
	}, "\n") + "\n"
	return startAnew(nil, []string{sentinelConfig}, func(dir string) error {
		return os.WriteFile(filepath.Join(dir, sentinelConfig), []byte(config), 0o600)
	})
}

// URL is the redis-sentinel:// URL.
func (f *Failover) URL() string {
	return "redis-sentinel://" + f.sentinel.Addr() + "?master=" + masterName
}

// SentinelAddr is redis-sentinel's host:port.
func (f *Failover) SentinelAddr() string { return f.sentinel.Addr() }

// MasterName is the name by which redis-sentinel knows the master.
func (f *Failover) MasterName() string { return masterName }

// Client is a new client that follows the master. It is closed when the test ends.
func (f *Failover) Client() *redis.Client {
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: masterName, SentinelAddrs: []string{f.sentinel.Addr()},
	})
	f.t.Cleanup(func() { _ = client.Close() })
	return client
}

// Current is the server that redis-sentinel now reports as the master.
func (f *Failover) Current() *Server {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), failoverTimeout)
	defer cancel()
	server, err := f.current(ctx)
	if err != nil {
		f.t.Fatalf("redistest: the current master: %v", err)
	}
	return server
}

// Failover promotes the replica with redis-sentinel's command, and returns when redis-sentinel
// reports it and it accepts writes. The old master becomes a replica some seconds later. Writes
// that it accepts until then are lost.
func (f *Failover) Failover() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), failoverTimeout)
	defer cancel()
	before := f.Current()
	// It is refused (NOGOODSLAVE) until redis-sentinel knows that the replica is healthy.
	await(ctx, f.t, "failover begun", func() error {
		_, err := f.sentinelDo(ctx, "SENTINEL", "FAILOVER", masterName)
		return err
	})
	await(ctx, f.t, "new master", func() error {
		now, err := f.current(ctx)
		if err != nil {
			return err
		}
		if now == before {
			return errors.New("still the old one")
		}
		return says(ctx, now, "role:master")
	})
}

func (f *Failover) current(ctx context.Context) (*Server, error) {
	reply, err := f.sentinelDo(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
	if err != nil {
		return nil, err
	}
	parts, ok := reply.([]any)
	if !ok || len(parts) != 2 {
		return nil, fmt.Errorf("redis-sentinel returns %v", reply)
	}
	addr := net.JoinHostPort(fmt.Sprint(parts[0]), fmt.Sprint(parts[1]))
	for _, server := range []*Server{f.Master, f.Replica} {
		if server.Addr() == addr {
			return server, nil
		}
	}
	return nil, fmt.Errorf("redis-sentinel names %s, which is neither server", addr)
}

func (f *Failover) sentinelDo(ctx context.Context, args ...any) (any, error) {
	return f.sentinel.Client().Do(ctx, args...).Result()
}

func says(ctx context.Context, server *Server, line string) error {
	info, err := server.Client().Info(ctx, "replication").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, line+"\r\n") {
		return fmt.Errorf("%s does not say %s", server.Addr(), line)
	}
	return nil
}
