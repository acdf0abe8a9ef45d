package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/maintenance"
	"turnstile/internal/protocol/rediskey"
)

// Worker is a live worker. A worker without maintenance sends no heartbeat: only its
// Name is set.
type Worker struct {
	Name     string
	Host     string
	PID      int
	Slots    int
	Turns    int // running turns with a slot, a few seconds ago
	Draining bool
	Started  time.Time // by the worker's clock; zero without a heartbeat
	Agent    string    // the kind of its default agent (TURNSTILE_AGENT), "" if it does not say it
	Agents   []string  // the names of its agents
	Takes    []string  // the names of those that take a session.ModelRequest
	Programs bool      // an agent may run programs on its machine; true of those of program.Run, which Turnstile does not know

	Unable []string // a sentence for each of Agents that it could not start last
}

// Ping returns an error if Redis cannot be reached, or stores nothing: its memory or its disk is full, or it
// lacks replicas. Workers live then, but cannot write their heartbeats, and Workers finds none after 10 s.
func (a *Client) Ping(ctx context.Context) error { return maintenance.Ping(ctx, a.rdb) }

// Workers returns the live workers, by name. It finds a worker by its heartbeat, which stays for 10
// s after a worker is killed. A worker without maintenance sends none: Workers returns it only
// while it does a periodic job. The heartbeats of other programs' asynq.Servers name their queues
// and do not count.
func (a *Client) Workers(ctx context.Context) ([]Worker, error) {
	beats, err := maintenance.Heartbeats(ctx, a.rdb)
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	var list []Worker
	for _, beat := range beats {
		list = append(list, Worker{
			Name: beat.Name, Host: beat.Host, PID: beat.PID, Slots: beat.Slots, Turns: beat.Turns, Draining: beat.Draining, Started: beat.Started,
			Agent: beat.Agent, Agents: beat.Agents, Takes: beat.Takes, Programs: beat.Programs, Unable: slices.Sorted(maps.Values(beat.Unable)),
		})
	}
	for _, job := range maintenance.EverySecond() {
		name, err := a.rdb.Get(ctx, rediskey.Timer(job)).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("list workers: %w", err)
		}
		if name != "" && !slices.ContainsFunc(list, func(w Worker) bool { return w.Name == name }) {
			list = append(list, Worker{Name: name})
		}
	}
	slices.SortFunc(list, func(x, y Worker) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Host, y.Host), cmp.Compare(x.PID, y.PID))
	})
	return list, nil
}
