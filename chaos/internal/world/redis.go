package world

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// Topology is the structure of a world's Redis.
type Topology string

// The topologies.
const (
	Single   Topology = "single"   // one server
	Failover Topology = "failover" // a primary and a replica, which change roles without a loss
	Killed   Topology = "killed"   // the same, and primaries are killed: writes that they had not sent are lost
	Cluster  Topology = "cluster"  // three masters
	Everysec Topology = "everysec" // one server with appendfsync everysec: a kill loses unwritten data
	Sentinel Topology = "sentinel" // a primary and two replicas, watched by three redis-sentinels, which choose the primary
)

// Server is a redis-server.
type Server struct {
	*Process
	Addr  string
	Proxy *Proxy // by which all others reach it; nil: they reach it by Addr

	watches bool // it is a redis-sentinel, whose default user is on
}

// Client is the administrator's new client of this server alone.
func (s *Server) Client() *redis.Client {
	options := &redis.Options{Addr: s.Addr, Username: Admin, Password: Password, MaxRetries: -1, ContextTimeoutEnabled: true}
	if s.watches {
		options.Username, options.Password = "", ""
	}
	return redis.NewClient(options)
}

// servers are a world's redis-servers. In a topology with a primary, processes reach it by an address
// that moves to the next primary: that of their proxies.
type servers struct {
	all    []*Server
	synced synced // of Everysec's server
	sentinels

	mu      sync.Mutex
	primary int
}

// Primary is the server that takes writes. A Cluster has several: then it is the first.
func (w *World) Primary() *Server {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[w.primary]
}

// Servers are all redis-servers.
func (w *World) Servers() []*Server { return w.all }

func (w *World) startRedis(ctx context.Context) (err error) {
	if w.RedisClock, err = newClock(w.Dir, "redis"); err != nil {
		return err
	}
	if err := w.writeUsers(ctx); err != nil {
		return err
	}
	n := map[Topology]int{Single: 1, Everysec: 1, Failover: 2, Killed: 2, Cluster: 3, Sentinel: 3}[w.Topology]
	if n == 0 {
		return fmt.Errorf("unknown topology %q", w.Topology)
	}
	for i := range n {
		if err := w.addServer(ctx, i); err != nil {
			return err
		}
	}
	switch w.Topology {
	case Cluster:
		return w.formCluster(ctx)
	case Sentinel:
		return w.startSentinels(ctx)
	case Failover, Killed:
		if err := w.follow(ctx, w.all[1], w.all[0]); err != nil {
			return err
		}
		w.vip, err = newProxy("harness", w.all[0].Addr)
	}
	return err
}

func (w *World) addServer(ctx context.Context, i int) error {
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(addr)
	name := fmt.Sprintf("redis%d", i+1)
	args := []string{
		"redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", w.Dir, "--appenddirname", name, "--dbfilename", name + ".rdb", "--save", "",
		"--appendonly", "yes", "--appendfsync", w.Topology.fsync(), "--maxmemory-policy", "noeviction", "--repl-diskless-sync-delay", "0",
		"--aclfile", w.users(), "--masteruser", Admin, "--masterauth", Password,
	}
	if w.Topology == Cluster {
		args = append(args, "--cluster-enabled", "yes", "--cluster-config-file", name+".conf", "--cluster-node-timeout", "3000",
			"--cluster-require-full-coverage", "no", "--cluster-announce-ip", "127.0.0.1")
	}
	env := []string{"LD_PRELOAD=" + w.Programs.Shim, w.RedisClock.Environ()}
	if w.Topology == Everysec {
		if w.synced, err = newSynced(w.Dir); err != nil {
			return err
		}
		env = append(env, w.synced.environ())
	}
	s := &Server{Process: w.process(name, env, args...), Addr: addr}
	w.all = append(w.all, s)
	if w.Topology == Sentinel {
		file, err := w.announced(s)
		if err != nil {
			return err
		}
		s.argv = slices.Insert(s.argv, 1, file)
	}
	if err := s.Start(); err != nil {
		return err
	}
	return s.serves(ctx)
}

// serves returns when the server responds.
func (s *Server) serves(ctx context.Context) error {
	rdb := s.Client()
	defer rdb.Close()
	return Await(ctx, 20*time.Second, func() error { return rdb.Ping(ctx).Err() })
}

// follow makes a server the replica of another, and returns when it has all that the other has.
func (w *World) follow(ctx context.Context, replica, primary *Server) error {
	rdb := replica.Client()
	defer rdb.Close()
	host, port, _ := net.SplitHostPort(primary.Addr)
	return Await(ctx, 30*time.Second, func() error {
		info, err := rdb.Info(ctx, "replication").Result()
		if err == nil && !strings.Contains(info, "master_port:"+port+"\r\n") {
			err = rdb.Do(ctx, "REPLICAOF", host, port).Err()
		}
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = errors.New("the replica is not in step")
		}
		return err
	})
}

// FailOver makes the replica the primary, without a loss: Redis' own FAILOVER stops writes until the
// replica has everything.
func (w *World) FailOver(ctx context.Context) error {
	w.mu.Lock()
	from, to := w.all[w.primary], w.all[1-w.primary]
	w.mu.Unlock()
	if err := w.follow(ctx, to, from); err != nil {
		return fmt.Errorf("before the failover: %w", err)
	}
	rdb := from.Client()
	defer rdb.Close()
	host, port, _ := net.SplitHostPort(to.Addr)
	if err := rdb.Do(ctx, "FAILOVER", "TO", host, port, "TIMEOUT", 5000).Err(); err != nil {
		return err
	}
	err := Await(ctx, 10*time.Second, func() error {
		info, err := rdb.Info(ctx, "replication").Result()
		switch {
		case err != nil:
			return err
		case strings.Contains(info, "role:slave"):
			return nil
		case strings.Contains(info, "master_failover_state:no-failover"):
			return errAborted
		}
		return errors.New("the failover goes on")
	})
	if err != nil {
		return err
	}
	return w.move(1)
}

// errAborted: the replica did not have everything within the time-out, and the primary stays.
var errAborted = errors.New("the failover was given up by Redis")

// KillPrimary kills the primary, promotes the replica and starts the killed one as its replica.
// Writes that the primary had not sent are lost.
func (w *World) KillPrimary(ctx context.Context) error {
	w.mu.Lock()
	from, to := w.all[w.primary], w.all[1-w.primary]
	w.mu.Unlock()
	if err := w.follow(ctx, to, from); err != nil {
		return fmt.Errorf("before the kill: %w", err)
	}
	from.Down(syscall.SIGKILL, 0)
	rdb := to.Client()
	defer rdb.Close()
	if err := rdb.Do(ctx, "REPLICAOF", "NO", "ONE").Err(); err != nil {
		return err
	}
	if err := w.move(1); err != nil {
		return err
	}
	if err := from.Start(); err != nil {
		return err
	}
	return w.follow(ctx, from, to)
}

// move points every proxy to the other server.
func (w *World) move(by int) error {
	w.mu.Lock()
	w.primary = (w.primary + by) % len(w.all)
	addr := w.all[w.primary].Addr
	w.mu.Unlock()
	for _, p := range w.proxies {
		if err := p.Point(addr); err != nil {
			return err
		}
	}
	return w.vip.Point(addr)
}

func (w *World) formCluster(ctx context.Context) error {
	const slots = 16384
	for i, s := range w.all {
		rdb := s.Client()
		first, last := i*slots/len(w.all), (i+1)*slots/len(w.all)-1
		_, port, _ := net.SplitHostPort(w.all[0].Addr)
		err := errors.Join(
			rdb.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(), // else the masters have a conflict to settle first
			rdb.ClusterAddSlotsRange(ctx, first, last).Err(),
		)
		if i > 0 {
			err = errors.Join(err, rdb.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", port).Err())
		}
		_ = rdb.Close()
		if err != nil {
			return err
		}
	}
	return w.ClusterWhole(ctx)
}

// ClusterWhole returns when each master knows the others and all slots are served.
func (w *World) ClusterWhole(ctx context.Context) error {
	for _, s := range w.all {
		rdb := s.Client()
		err := Await(ctx, 60*time.Second, func() error {
			info, err := rdb.ClusterInfo(ctx).Result()
			for _, want := range []string{"cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:3", "cluster_size:3"} {
				if err == nil && !strings.Contains(info, want+"\r\n") {
					err = fmt.Errorf("%s has not %s", s.Name, want)
				}
			}
			return err
		})
		_ = rdb.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// Client is a user's new client of the world's Redis, past the proxies of its processes.
func (w *World) Client(user string) redis.UniversalClient {
	if w.Topology == Cluster {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs(w.all), Username: user, Password: Password, PoolSize: 64})
	}
	if w.Topology == Sentinel {
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: masterName, SentinelAddrs: addrs(w.watchers), Username: user, Password: Password, PoolSize: 64})
	}
	return redis.NewClient(&redis.Options{Addr: w.address(nil), Username: user, Password: Password, PoolSize: 64})
}

// RedisURL is a user's URL past the proxies of processes.
func (w *World) RedisURL(user string) string { return w.url(nil, user) }

// url is the URL of a process that has a proxy, or none.
func (w *World) url(p *Proxy, user string) string {
	login := user + ":" + Password + "@"
	switch w.Topology {
	case Cluster:
		return "redis-cluster://" + login + strings.Join(addrs(w.all), ",")
	case Sentinel:
		return "redis-sentinel://" + login + strings.Join(addrs(w.watchers), ",") + "/0?master=" + masterName
	}
	return "redis://" + login + w.address(p) + "/0"
}

func (w *World) address(p *Proxy) string {
	switch {
	case p != nil:
		return p.Addr()
	case w.vip != nil:
		return w.vip.Addr()
	}
	return w.all[0].Addr
}

func addrs(servers []*Server) (list []string) {
	for _, s := range servers {
		list = append(list, s.Addr)
	}
	return list
}

// proxied makes a process's proxy, if it needs one. Without a single address there can be none: Sentinel has one
// address of each server for all.
func (w *World) proxied(name string, wanted bool) (*Proxy, error) {
	if w.Topology == Cluster || w.Topology == Sentinel || !wanted && (w.Topology == Single || w.Topology == Everysec) {
		return nil, nil
	}
	p, err := newProxy(name, w.Primary().Addr)
	w.proxies = append(w.proxies, p)
	return p, err
}
