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

// WorkerInfo is what is known of a live worker. One that runs without maintenance sends
// no heartbeat: only its name is known.
type WorkerInfo struct {
	Name     string // "" of a worker of the version before whose id is not the default one
	Host     string
	PID      int
	Slots    int
	Turns    int // that run, a few seconds ago
	Draining bool
	Started  time.Time // by the worker's clock; zero: no heartbeat
}

// Workers lists the live workers, by name. Each is known by its heartbeat, which a killed
// worker leaves behind for 10 s. A worker without maintenance sends none: of these only
// those are listed that do a periodic job just now. An asynq.Server of another program
// sends heartbeats too, but names its queues there.
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

// is reports whether a worker has a name. A worker of the version before tells only its
// host and process id, with which the default name begins.
func (w WorkerInfo) is(name string) bool {
	return w.Name == name || w.Name == "" && strings.HasPrefix(name, fmt.Sprintf("%s-%d-", w.Host, w.PID))
}

// everySecond are the periodic jobs that some worker does at least once a second. Their
// keys are there while it does them, and for a tenth of a second behind that.
var everySecond = []string{"due", "reap"}

const (
	// signWindow is for how long the keys of these jobs are looked for: longer than the
	// pause between two runs, and a slow Redis on top.
	signWindow = 1500 * time.Millisecond

	signEvery = 40 * time.Millisecond
)

// NoWorker reports whether no worker is running, as far as can be known: there is no
// heartbeat, and no worker has done a periodic job for longer than there is between two of
// them, which workers without maintenance do as well. So it takes a second and a half to
// say yes, and mostly one command to say no. What cannot be read, as by a Redis user whose
// rules do not allow it, is no evidence. Workers of other databases do not count.
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
