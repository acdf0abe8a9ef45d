// Package agreement compares the settings that must be the same at all workers and gateways of an
// installation. Two installations that use one database by mistake differ in some of them.
package agreement

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/version"
)

const (
	every = time.Minute // how often a Watch publishes and compares
	kept  = 2 * every   // after that another process removes it, or Redis

	most, mostLine = 1000, 16 << 10 // processes that are read, and bytes of each
)

// Process is what a worker or gateway publishes about itself.
type Process struct {
	Name     string            `json:"name"`
	Gateway  bool              `json:"gateway"`
	Version  string            `json:"version"`
	Settings map[string]string `json:"settings"`
}

// Difference is a setting with another process's value of it.
type Difference struct{ Setting, Other string }

// Differs returns the differences from other processes, and for each the name of one that has that value.
// A setting that a process does not have is none.
func (p Process) Differs(all []Process) map[Difference]string {
	found := map[Difference]string{}
	for _, one := range all {
		for name, other := range one.Settings {
			if own, has := p.Settings[name]; has && own != other && one.Name != p.Name {
				found[Difference{name, other}] = one.Name
			}
		}
	}
	return found
}

// Living returns the workers and gateways, and for up to three minutes those that were killed.
func Living(ctx context.Context, rdb redis.UniversalClient) (all []Process, err error) {
	lines, err := rdb.ZRange(ctx, rediskey.Processes, 0, most-1).Result()
	for _, line := range lines {
		var p Process
		if len(line) <= mostLine && json.Unmarshal([]byte(line), &p) == nil && p.Name != "" {
			all = append(all, p)
		}
	}
	return all, err
}

// NewName returns a unique name that shows an operator where a process runs.
func NewName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:4]))
}

// Watch publishes the settings of a process. It logs a warning when another process has others, once for
// each value, and when none has it any more.
type Watch struct {
	Name     string
	Gateway  bool
	Settings func() map[string]string // a new map of them as they are now, without secrets
	Redis    redis.UniversalClient
	Logger   *slog.Logger

	line string                // that was published last
	told map[Difference]string // that the log has
}

// Run publishes and compares until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for ctx.Err() == nil {
		if err := w.look(ctx); err != nil && ctx.Err() == nil {
			w.Logger.Warn("settings cannot be compared with those of other workers and gateways", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-ticks.C:
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = w.Redis.ZRem(ctx, rediskey.Processes, w.line).Err() // it expires
}

func (w *Watch) look(ctx context.Context) error {
	at, err := w.Redis.Time(ctx).Result()
	if err != nil {
		return err
	}
	own := Process{w.Name, w.Gateway, version.String(), w.Settings()}
	own.Settings["layout"] = rediskey.Layout
	line, err := json.Marshal(own)
	if err != nil {
		return err
	}
	_, err = w.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZRem(ctx, rediskey.Processes, w.line)
		w.line = string(line)
		p.ZAdd(ctx, rediskey.Processes, redis.Z{Score: float64(at.Add(kept).UnixMilli()), Member: w.line})
		p.ZRemRangeByScore(ctx, rediskey.Processes, "-inf", strconv.FormatInt(at.UnixMilli(), 10)) // killed ones
		p.Expire(ctx, rediskey.Processes, kept)
		return nil
	})
	all, unread := Living(ctx, w.Redis)
	if err := errors.Join(err, unread); err != nil {
		return err
	}
	now := own.Differs(all)
	for one, neighbour := range now {
		if w.told[one] == "" {
			w.Logger.Warn("a setting that must be the same everywhere differs: if two installations use this database, give each a separate one; a deploy that changes the setting ends this",
				"setting", one.Setting, "own", own.Settings[one.Setting], "other", one.Other, "neighbour", neighbour)
		}
	}
	for one := range w.told {
		if now[one] == "" {
			w.Logger.Info("a setting does not differ any more", "setting", one.Setting, "other", one.Other)
		}
	}
	w.told = now
	return nil
}
