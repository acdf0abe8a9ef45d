package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/test/history"
)

// A primary that is away for downAfter is replaced, if two of three sentinels agree.
const (
	masterName      = "turnstile"
	downAfter       = 2 * time.Second
	failoverTimeout = 5 * time.Second
	quorum          = 2
)

// mendedWithin is how long the servers may take after a fault. Sentinel sees some seconds late that a
// replaced primary is back, and waits for 8 s before it makes it a replica.
const mendedWithin = 90 * time.Second

// sentinels are the processes of Redis Sentinel. Everyone reaches a server by its proxy: clients, the other servers and
// the sentinels.
type sentinels struct {
	watchers []*Server // redis-sentinel
	mended   time.Time // when all servers were last seen in their roles
}

// Sentinels are the processes of Redis Sentinel.
func (w *World) Sentinels() []*Server { return w.watchers }

// announced writes the first settings of a server with a proxy. Sentinel changes its role, and Redis keeps that in the file.
// A primary that lost its replicas must not accept writes for long: nobody would have them.
func (w *World) announced(s *Server) (file string, err error) {
	if s.Proxy, err = newProxy(s.Name, s.Addr); err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(s.Proxy.Addr())
	settings := "replica-announce-ip 127.0.0.1\nreplica-announce-port " + port + "\nmin-replicas-to-write 1\nmin-replicas-max-lag 2\n"
	if first := w.all[0]; first != s {
		_, port, _ = net.SplitHostPort(first.Proxy.Addr())
		settings += "replicaof 127.0.0.1 " + port + "\n"
	}
	file = filepath.Join(w.Dir, s.Name+".conf")
	return file, os.WriteFile(file, []byte(settings), 0o600)
}

func (w *World) startSentinels(ctx context.Context) error {
	for i := range 3 {
		addr, err := freeAddr(ctx)
		if err != nil {
			return err
		}
		_, port, _ := net.SplitHostPort(addr)
		_, primary, _ := net.SplitHostPort(w.all[0].Proxy.Addr())
		name := fmt.Sprintf("sentinel%d", i+1)
		file := filepath.Join(w.Dir, name+".conf")
		settings := fmt.Sprintf("port %s\nbind 127.0.0.1\nsentinel monitor %s 127.0.0.1 %s %d\nsentinel down-after-milliseconds %[2]s %[5]d\nsentinel failover-timeout %[2]s %[6]d\nsentinel auth-user %[2]s %[7]s\nsentinel auth-pass %[2]s %[8]s\n",
			port, masterName, primary, quorum, downAfter.Milliseconds(), failoverTimeout.Milliseconds(), Admin, Password)
		if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
			return err
		}
		s := &Server{Process: w.process(name, nil, "redis-server", file, "--sentinel"), Addr: addr, watches: true}
		w.watchers = append(w.watchers, s)
		if err := errors.Join(s.Start(), s.serves(ctx)); err != nil {
			return err
		}
	}
	return w.Mended(ctx)
}

// Replaced returns when a sentinel names another primary than this one.
func (w *World) Replaced(ctx context.Context, primary *Server) error {
	return Await(ctx, time.Minute, func() error { // a sentinel that was stopped takes no part for 30 s
		for _, s := range w.watchers {
			if now, err := w.named(ctx, s); err == nil && now != primary {
				return nil
			}
		}
		return fmt.Errorf("no sentinel has replaced %s", primary.Name)
	})
}

// Elect makes Sentinel replace the primary, though it serves. What it accepts until Sentinel makes it a replica is lost.
func (w *World) Elect(ctx context.Context, by *Server) error {
	from := w.Primary()
	err := Await(ctx, 20*time.Second, func() error { return do(ctx, by, "SENTINEL", "FAILOVER", masterName).Err() })
	return cmp.Or(err, w.Replaced(ctx, from))
}

// Mended returns when all sentinels name one primary, and the other servers are its replicas. It records if that is
// another primary than when all were last in their roles: the writes since then may be lost.
func (w *World) Mended(ctx context.Context) error {
	var now *Server
	err := Await(ctx, mendedWithin, func() (err error) {
		now, err = w.whole(ctx)
		return err
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if was := w.all[w.primary]; was != now {
		w.primary = slices.Index(w.all, now)
		w.log.Add(history.Record{Kind: history.Fault, Name: history.PrimaryReplaced, Target: was.Name + " by " + now.Name, Since: w.mended.UnixNano()})
	}
	w.mended = time.Now()
	return nil
}

// whole returns the primary if every sentinel and every server agrees on it.
func (w *World) whole(ctx context.Context) (primary *Server, err error) {
	for _, s := range w.watchers {
		named, err := w.named(ctx, s)
		switch {
		case err != nil:
			return nil, err
		case primary != nil && named != primary:
			return nil, errors.New("the sentinels name two primaries")
		}
		primary = named
	}
	_, port, _ := net.SplitHostPort(primary.Proxy.Addr())
	for _, s := range w.all {
		want := []string{"role:slave", "master_port:" + port, "master_link_status:up"}
		if s == primary {
			want = []string{"role:master", fmt.Sprintf("connected_slaves:%d", len(w.all)-1)}
		}
		info, err := do(ctx, s, "INFO", "replication").Text()
		for _, line := range want {
			if err == nil && !strings.Contains(info, line+"\r\n") {
				err = fmt.Errorf("%s has not %s", s.Name, line)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return primary, nil
}

// named is the primary that a sentinel names.
func (w *World) named(ctx context.Context, by *Server) (*Server, error) {
	addr, err := do(ctx, by, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName).StringSlice()
	if err != nil {
		return nil, err
	}
	for _, s := range w.all {
		if s.Proxy.Addr() == net.JoinHostPort(addr[0], addr[1]) {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%s names %v", by.Name, addr)
}

// do sends a server one command. It may be stopped: then the command fails soon.
func do(ctx context.Context, s *Server, args ...any) *redis.Cmd {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	rdb := s.Client()
	defer rdb.Close()
	return rdb.Do(ctx, args...)
}
