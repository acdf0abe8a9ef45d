package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"turnstile/chaos/internal/world"
)

// failovers are for a primary and a replica that change roles without a loss.
var failovers = []Kind{
	{"coordinated failover", 8, func(ctx context.Context, w *world.World, _ *rand.Rand) (string, error) {
		err := w.FailOver(ctx)
		return "to " + w.Primary().Name, err
	}},
}

// kills are for a primary: it loses writes that it had not sent to its replica.
var kills = []Kind{
	{"primary killed", 8, func(ctx context.Context, w *world.World, _ *rand.Rand) (string, error) {
		err := w.KillPrimary(ctx)
		return "to " + w.Primary().Name, err
	}},
}

// elections are for Redis Sentinel: the primary is away until Sentinel has replaced it, or a sentinel or a replica fails.
var elections = []Kind{
	{"primary killed until replaced", 4, func(ctx context.Context, w *world.World, _ *rand.Rand) (string, error) {
		s := w.Primary()
		s.Down(syscall.SIGKILL, 0)
		return s.Name, errors.Join(w.Replaced(ctx, s), s.Start())
	}},
	{"primary stopped until replaced", 4, func(ctx context.Context, w *world.World, _ *rand.Rand) (string, error) {
		s := w.Primary()
		pid := s.PID()
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		err := w.Replaced(ctx, s)
		_ = syscall.Kill(pid, syscall.SIGCONT)
		return s.Name, err
	}},
	{"failover by Sentinel's command", 4, func(ctx context.Context, w *world.World, rng *rand.Rand) (string, error) {
		by := sentinel(w, rng)
		return "by " + by.Name, w.Elect(ctx, by)
	}},
	{"sentinel killed", 2, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		return signal(sentinel(w, rng).Process, syscall.SIGKILL), nil
	}},
	{"sentinel stopped", 1, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		return stopped(sentinel(w, rng).Process, between(rng, time.Second, 2*w.TTL)), nil
	}},
	{"replica killed", 2, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		replicas := slices.DeleteFunc(slices.Clone(w.Servers()), func(s *world.Server) bool { return s == w.Primary() })
		return signal(replicas[rng.IntN(len(replicas))].Process, syscall.SIGKILL), nil
	}},
}

func sentinel(w *world.World, rng *rand.Rand) *world.Server {
	return w.Sentinels()[rng.IntN(len(w.Sentinels()))]
}

// mended are kinds of faults that end when Sentinel has brought all servers back into their roles.
func mended(kinds []Kind) []Kind {
	for i, k := range kinds {
		kinds[i].Break = func(ctx context.Context, w *world.World, rng *rand.Rand) (string, error) {
			target, err := k.Break(ctx, w, rng)
			return target, errors.Join(err, w.Mended(ctx))
		}
	}
	return kinds
}

// crashes are for a server that syncs its file once a second. They stand for "Redis killed".
var crashes = []Kind{
	{"Redis killed under everysec", 2, redisKilled},
	{"power lost under everysec", 4, func(ctx context.Context, w *world.World, _ *rand.Rand) (string, error) {
		lost, err := w.LosePower(ctx)
		return fmt.Sprintf("%d bytes were not on the disk", lost), err
	}},
}

// migrations are for a Cluster.
var migrations = []Kind{
	{"slots migrated", 6, func(ctx context.Context, w *world.World, rng *rand.Rand) (string, error) {
		all := w.Servers()
		from := rng.IntN(len(all))
		to := (from + 1 + rng.IntN(len(all)-1)) % len(all)
		n := 50 + rng.IntN(400)
		ids := make([]string, len(all))
		for i, s := range all {
			rdb := s.Client()
			id, err := rdb.Do(ctx, "CLUSTER", "MYID").Text()
			_ = rdb.Close()
			if err != nil {
				return "", err
			}
			ids[i] = id
		}
		target := fmt.Sprintf("%d slots from %s to %s", n, all[from].Name, all[to].Name)
		err := clusterTool(ctx, "reshard", all[0].Addr, "--cluster-from", ids[from], "--cluster-to", ids[to], "--cluster-slots", fmt.Sprint(n), "--cluster-yes")
		if err != nil {
			// A half-migrated slot blocks its sessions until an operator does this.
			err = errors.Join(err, world.Await(ctx, time.Minute, func() error { return clusterTool(ctx, "fix", all[0].Addr, "--cluster-yes") }))
		}
		return target, err
	}},
}

// clusterTool runs a command of redis-cli --cluster. Its error has the end of the output.
func clusterTool(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "redis-cli", append([]string{"--user", world.Admin, "--pass", world.Password, "--no-auth-warning", "--cluster"}, args...)...).CombinedOutput()
	if err == nil {
		return nil
	}
	lines := slices.DeleteFunc(strings.Split(string(out), "\n"), func(line string) bool { return len(strings.TrimSpace(line)) < 8 })
	return fmt.Errorf("%s: %w: %s", args[0], err, strings.Join(lines[max(0, len(lines)-3):], "; "))
}
