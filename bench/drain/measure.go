package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// measure is what one drain took, per message where it is not a rate.
type measure struct {
	rate     float64 // messages a second
	usec     float64 // of Redis' time for the commands that were sent
	commands float64 // sent; a script is one
}

func median(all []measure) measure {
	pick := func(f func(measure) float64) float64 {
		v := make([]float64, len(all))
		for i, m := range all {
			v[i] = f(m)
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return measure{
		pick(func(m measure) float64 { return m.rate }),
		pick(func(m measure) float64 { return m.usec }),
		pick(func(m measure) float64 { return m.commands }),
	}
}

// counter counts the commands that a client sends, by name.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counter) add(cmds ...redis.Cmder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cmd := range cmds {
		c.n[strings.ToLower(cmd.Name())]++
	}
}

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.add(cmd)
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.add(cmds...)
		return next(ctx, cmds)
	}
}

// timed measures a drain of n messages through a client of its own.
func timed(ctx context.Context, srv *server, n int, drain func(rdb redis.UniversalClient, each func()) (stop func(), err error)) (measure, error) {
	admin := srv.client()
	defer admin.Close()
	if err := admin.ConfigResetStat(ctx).Err(); err != nil {
		return measure{}, err
	}
	rdb := srv.client()
	defer rdb.Close()
	c := &counter{n: map[string]int{}}
	rdb.AddHook(c)
	var left atomic.Int64
	left.Store(int64(n))
	done := make(chan struct{})
	start := time.Now()
	stop, err := drain(rdb, func() {
		if left.Add(-1) == 0 {
			close(done)
		}
	})
	if err != nil {
		return measure{}, err
	}
	<-done
	took := time.Since(start)
	usec, commands, err := cost(ctx, admin, c)
	stop()
	return measure{float64(n) / took.Seconds(), usec / float64(n), float64(commands) / float64(n)}, err
}

// cost is the time that Redis took for the commands that were counted. A
// script's time contains that of the commands that it calls; those have entries
// of their own in commandstats, which do not count here: of any other command
// the mean time is taken as often as it was sent.
func cost(ctx context.Context, admin redis.UniversalClient, c *counter) (usec float64, commands int, err error) {
	info, err := admin.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, 0, err
	}
	stats := map[string][2]float64{}
	for _, line := range strings.Split(info, "\n") {
		name, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		var calls, us float64
		if _, err := fmt.Sscanf(rest, "%f,usec=%f", &calls, &us); err == nil {
			stats[name] = [2]float64{calls, us}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if os.Getenv("DETAIL") != "" {
		fmt.Println(c.n, stats)
	}
	for name, n := range c.n {
		commands += n
		if s := stats[name]; s[0] > 0 {
			usec += s[1] / s[0] * float64(n)
		}
	}
	return usec, commands, nil
}

// server is a redis-server of the benchmark's own.
type server struct {
	addr string
	cmd  *exec.Cmd
	dir  string
}

func startRedis() (*server, error) {
	dir, err := os.MkdirTemp("", "turnstile-bench-")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	l.Close()
	s := &server{addr: addr, dir: dir}
	s.cmd = exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no", "--loglevel", "warning")
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	rdb := s.client()
	defer rdb.Close()
	for deadline := time.Now().Add(5 * time.Second); ; {
		if err = rdb.Ping(context.Background()).Err(); err == nil {
			return s, nil
		}
		if time.Now().After(deadline) {
			s.stop()
			return nil, err
		}
	}
}

func (s *server) client() redis.UniversalClient {
	return redis.NewClient(&redis.Options{Addr: s.addr, PoolSize: 100})
}

// clear empties the server, which is the benchmark's own.
func (s *server) clear(ctx context.Context) error {
	rdb := s.client()
	defer rdb.Close()
	return rdb.FlushAll(ctx).Err()
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.dir)
}

func startProfile(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, pprof.StartCPUProfile(f)
}
