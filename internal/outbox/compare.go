package outbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// compareEvery is how often Compare publishes and compares.
const compareEvery = 5 * time.Second

// routes is a hash of what decides where a message's outcome goes: names and patterns, in their order,
// and no secret.
func (d *Destinations) routes() string {
	type route struct {
		Name           string
		Sessions, From []string
	}
	var all []route
	for _, one := range d.list {
		all = append(all, route{one.Name, one.Sessions, one.From})
	}
	text, _ := json.Marshal(all) //nolint:errchkjson // names and patterns always encode
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Compare publishes which routes this gateway's file has, and logs when another gateway's have been
// different for longer than a file takes to reach every gateway: where an outcome goes depends on which
// gateway took the message then. It ends with ctx.
func (f *File) Compare(ctx context.Context, rdb redis.UniversalClient, log *slog.Logger) {
	ticks := time.NewTicker(compareEvery)
	defer ticks.Stop()
	for warned := false; ; {
		err := f.compare(ctx, rdb, compareEvery)
		switch differ := f.differ.Load(); {
		case redis.HasErrorPrefix(err, "NOPERM"):
			log.Warn("the file of destinations is not compared with that of other gateways: give the gateway's Redis user the rules of docs/security.md", "error", err)
			return
		case err != nil: // Redis is away
		case differ && !warned:
			log.Error("gateways have different destinations: where an outcome goes depends on which of them took its message; give all the same file", "file", f.path)
			warned = true
		case !differ && warned:
			log.Info("gateways have the same destinations again", "file", f.path)
			warned = false
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// Differs reports whether another gateway's routes were different when Compare looked last.
func (f *File) Differs() bool { return f.differ.Load() }

// compare publishes the routes, and compares them with those that others have published in the last
// rounds, later than these could have had an old file. Only Redis' clock counts.
func (f *File) compare(ctx context.Context, rdb redis.UniversalClient, every time.Duration) error {
	routes := f.Current().routes()
	redisNow, err := rdb.Time(ctx).Result()
	if err != nil {
		return err
	}
	now := redisNow.UnixMilli()
	if routes != f.routes {
		f.routes, f.since = routes, now
	}
	var published *redis.MapStringStringCmd
	if _, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, rediskey.Routes, routes, now)
		p.Expire(ctx, rediskey.Routes, 6*every)
		published = p.HGetAll(ctx, rediskey.Routes)
		return nil
	}); err != nil {
		return err
	}
	differ := false
	for other, text := range published.Val() {
		at, _ := strconv.ParseInt(text, 10, 64)
		switch age := now - at; {
		case other == routes:
		case age > 6*every.Milliseconds():
			if err := rdb.HDel(ctx, rediskey.Routes, other).Err(); err != nil {
				return err
			}
		case age <= every.Milliseconds()*5/2 && at > f.since+every.Milliseconds()*3/2:
			differ = true
		}
	}
	f.differ.Store(differ)
	return nil
}
