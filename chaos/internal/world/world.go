// Package world starts the programs of a run: a redis-server, workers, gateways and a model's
// server, each a child process.
package world

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"turnstile/test/clock"
	"turnstile/test/history"
)

// The worlds' timing. It is shorter than in production, so that a run has many leases and sweeps.
const (
	TTL         = 3 * time.Second // unless a run sets another
	Sweep       = 2 * time.Second
	Grace       = 500 * time.Millisecond
	Drain       = time.Second
	AskTimeout  = 2 * time.Second
	MaxAttempts = 3
	StuckLimit  = 3
)

// Destination is the name of the webhook's receiver, Secret its secret.
const (
	Destination = "hook"
	Secret      = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// World is a whole installation. Its processes die with the harness.
type World struct {
	Dir      string
	Programs Programs
	TTL      time.Duration // of the workers' leases

	Topology Topology
	Workers  []*Worker
	Gateways []*Gateway
	Model    *Process

	RedisClock clock.Clock // of all redis-servers

	servers
	vip       *Proxy   // the harness's way to the primary; nil: there is only one server
	proxies   []*Proxy // of processes
	log       *history.Log
	processes []*Process
}

// Worker is a worker with its clock. All but the first reach a single Redis through a proxy.
type Worker struct {
	*Process
	Agent string
	Clock clock.Clock
	Proxy *Proxy // nil: none
}

// Gateway is a gateway. The second reaches a single Redis through a proxy.
type Gateway struct {
	*Process
	Addr  string
	Proxy *Proxy // nil: none
}

// URL is the gateway's base URL.
func (g *Gateway) URL() string { return "http://" + g.Addr }

// Start starts a world in a directory. Webhooks go to the URL hook.
func Start(ctx context.Context, topology Topology, ttl time.Duration, dir string, programs Programs, log *history.Log, hook string) (*World, error) {
	w := &World{Topology: topology, TTL: ttl, Dir: dir, Programs: programs, log: log}
	for _, sub := range []string{"logs", "clocks"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	destinations := fmt.Sprintf(`[{"name": %q, "url": %q, "secrets": [%q], "private": true}]`, Destination, hook, Secret)
	if err := os.WriteFile(filepath.Join(dir, "destinations.json"), []byte(destinations), 0o600); err != nil {
		return nil, err
	}
	if err := w.startRedis(ctx); err != nil {
		return w, err
	}
	model, err := freeAddr(ctx)
	if err != nil {
		return w, err
	}
	w.Model = w.process("model", nil, programs.Agent, "agent", "model", dir, model)
	if err := w.Model.Start(); err != nil {
		return w, err
	}
	for i, agent := range []string{"exec", "acp", "model"} {
		if err := w.addWorker(i, agent, model); err != nil {
			return w, err
		}
	}
	for i := range 2 {
		if err := w.addGateway(ctx, i); err != nil {
			return w, err
		}
	}
	return w, w.ready(ctx)
}

func (w *World) addWorker(i int, agent, model string) error {
	wk := &Worker{Agent: agent}
	name := fmt.Sprintf("worker%d", i+1)
	var err error
	if wk.Clock, err = newClock(w.Dir, name); err != nil {
		return err
	}
	if wk.Proxy, err = w.proxied(name, i > 0); err != nil {
		return err
	}
	env := []string{
		"REDIS_URL=" + w.url(wk.Proxy, worker), wk.Clock.Environ(),
		"TURNSTILE_AGENT=" + agent, "TURNSTILE_CONCURRENCY=8",
		"TURNSTILE_SENTINEL_TTL=" + w.TTL.String(), "TURNSTILE_SWEEP_INTERVAL=" + Sweep.String(),
		"TURNSTILE_DRAIN_TIMEOUT=" + Drain.String(), "TURNSTILE_INTERRUPT_GRACE=" + Grace.String(),
		"TURNSTILE_RETRY_BACKOFF=100ms", "TURNSTILE_COLLECT_WINDOW=300ms",
		"TURNSTILE_ASK_TIMEOUT=" + AskTimeout.String(), "TURNSTILE_PARK_AFTER=300ms", fmt.Sprintf("TURNSTILE_MAX_ATTEMPTS=%d", MaxAttempts), fmt.Sprintf("TURNSTILE_STUCK_LIMIT=%d", StuckLimit),
		"TURNSTILE_RECOVERY_RATE=500/s", "TURNSTILE_RETENTION=10d", "TURNSTILE_EVENTS_BYTES=1073741824",
		"TURNSTILE_LOG_FORMAT=json",
	}
	switch agent {
	case "model":
		env = append(env, "TURNSTILE_MODEL=m", "TURNSTILE_MODEL_URL=http://"+model+"/v1")
	case "exec":
		env = append(env, "TURNSTILE_AGENT_FORMAT=jsonl")
		fallthrough
	default:
		env = append(env, fmt.Sprintf("TURNSTILE_AGENT_COMMAND=%s agent %s %s", w.Programs.Agent, agent, w.Dir))
	}
	if i == 0 {
		env = append(env, w.deliverer()...)
	}
	wk.Process = w.process(name, env, w.Programs.Worker)
	w.Workers = append(w.Workers, wk)
	return wk.Start()
}

func (w *World) deliverer() []string {
	return []string{"TURNSTILE_DELIVER=true", "TURNSTILE_GATEWAY_DESTINATIONS_FILE=" + filepath.Join(w.Dir, "destinations.json")}
}

func (w *World) addGateway(ctx context.Context, i int) (err error) {
	g := &Gateway{}
	if g.Addr, err = freeAddr(ctx); err != nil {
		return err
	}
	name := fmt.Sprintf("gateway%d", i+1)
	if g.Proxy, err = w.proxied(name, i > 0); err != nil {
		return err
	}
	env := append(w.deliverer(), "REDIS_URL="+w.url(g.Proxy, gateway), "TURNSTILE_GATEWAY_ADDR="+g.Addr, "TURNSTILE_GATEWAY_RATE=0", "TURNSTILE_GATEWAY_OPEN=true",
		"TURNSTILE_GATEWAY_DRAIN_TIMEOUT=2s", "TURNSTILE_LOG_FORMAT=json")
	g.Process = w.process(name, env, w.Programs.Gateway)
	w.Gateways = append(w.Gateways, g)
	return g.Start()
}

// ready returns when every process serves.
func (w *World) ready(ctx context.Context) error {
	rdb := w.Client(Admin)
	defer rdb.Close()
	err := Await(ctx, 30*time.Second, func() error {
		n, err := rdb.ZCard(ctx, "asynq:servers").Result()
		if err == nil && n < int64(len(w.Workers)) {
			err = fmt.Errorf("%d of %d workers have started", n, len(w.Workers))
		}
		return err
	})
	for _, g := range w.Gateways {
		if err == nil {
			err = Await(ctx, 30*time.Second, func() error { return dial(ctx, g.Addr) })
		}
	}
	return err
}

// End ends workers and gateways as a supervisor does, and names those that had to be killed. Redis
// continues.
func (w *World) End() (killed []string) {
	for _, p := range w.processes {
		isRedis := slices.ContainsFunc(slices.Concat(w.all, w.watchers), func(s *Server) bool { return s.Process == p })
		if !isRedis && p.Down(syscall.SIGTERM, 20*time.Second) && p != w.Model {
			killed = append(killed, p.Name)
		}
	}
	return killed
}

// Kill ends everything at once.
func (w *World) Kill() {
	for _, p := range w.processes {
		if p.cmd != nil {
			p.Down(syscall.SIGKILL, 0)
		}
	}
}

// Leftovers are the processes of the run's programs that live, by their executables.
func (w *World) Leftovers() (list []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		exe, err := os.Readlink(link)
		if err == nil && strings.HasPrefix(exe, w.Programs.Dir+"/") {
			args, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
			list = append(list, filepath.Base(filepath.Dir(link))+" "+strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return list
}

// Await repeats check until it returns nil, and returns its last error after patience.
func Await(ctx context.Context, patience time.Duration, check func() error) error {
	for end := time.Now().Add(patience); ; {
		err := check()
		if err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func dial(ctx context.Context, addr string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err == nil {
		_ = c.Close()
	}
	return err
}

func freeAddr(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
