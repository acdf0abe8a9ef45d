package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/maintenance"
	"turnstile/internal/rediskey"
)

// WorkerInfo describes a live worker. A worker without maintenance sends no heartbeat: only its
// Name is set.
type WorkerInfo struct {
	Name     string // "" for a worker of the version before with a name other than the default
	Host     string
	PID      int
	Slots    int
	Turns    int // running turns, a few seconds ago
	Draining bool
	Started  time.Time // by the worker's clock; zero without a heartbeat
	Agent    string    // the kind of agent that it runs (TURNSTILE_AGENT), "" if it does not say it
	Programs bool      // its agent may run programs on its machine; true of RunWorker's, which Turnstile does not know
}

// Workers returns the live workers, by name. It finds a worker by its heartbeat, which a killed
// worker leaves behind for 10 s. A worker without maintenance sends none: Workers returns it only
// while it does a periodic job. The heartbeats of other programs' asynq.Servers name their queues
// and do not count.
func (a *Client) Workers(ctx context.Context) ([]WorkerInfo, error) {
	beats, err := maintenance.Heartbeats(ctx, a.rdb)
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	var list []WorkerInfo
	for _, beat := range beats {
		list = append(list, WorkerInfo(beat))
	}
	for _, job := range everySecond {
		name, err := a.rdb.Get(ctx, rediskey.Timer(job)).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("list workers: %w", err)
		}
		if name != "" && !slices.ContainsFunc(list, func(w WorkerInfo) bool { return w.is(name) }) {
			list = append(list, WorkerInfo{Name: name})
		}
	}
	slices.SortFunc(list, func(x, y WorkerInfo) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Host, y.Host), cmp.Compare(x.PID, y.PID))
	})
	return list, nil
}

// is reports whether the worker has a name. A worker of the version before reports only its host
// and process id, with which the default name begins.
func (w WorkerInfo) is(name string) bool {
	return w.Name == name || w.Name == "" && strings.HasPrefix(name, fmt.Sprintf("%s-%d-", w.Host, w.PID))
}

// everySecond are the periodic jobs that some worker does at least once a second. A job's key
// exists while it is done, and for a tenth of a second afterwards.
var everySecond = []string{"due", "reap"}

const (
	// signWindow is for how long NoWorker looks for the keys of these jobs: longer than the pause
	// between two runs, even with a slow Redis.
	signWindow = 1500 * time.Millisecond

	signEvery = 40 * time.Millisecond
)

// NoWorker reports whether no worker is running. It looks for heartbeats, and for the periodic jobs
// that workers without maintenance do as well. It returns false mostly after one command, and true
// after a second and a half. It also returns false if a read fails, for example because the Redis
// user may not read these keys, and if ctx ends. Workers of other databases do not count.
func (a *Client) NoWorker(ctx context.Context) bool {
	if n, err := maintenance.CountHeartbeats(ctx, a.rdb); n > 0 || err != nil {
		return false
	}
	names := make([]string, len(everySecond))
	for i, job := range everySecond {
		names[i] = rediskey.Timer(job)
	}
	tick := time.NewTicker(signEvery)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < signWindow; {
		for _, name := range names { // one by one: on a Cluster they are in two slots
			if n, err := a.rdb.Exists(ctx, name).Result(); n > 0 || err != nil {
				return false
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	n, err := maintenance.CountHeartbeats(ctx, a.rdb) // one may have started meanwhile
	return n == 0 && err == nil
}
