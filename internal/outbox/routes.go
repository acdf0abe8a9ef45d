package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
)

// shareEvery is how often KeepShared shares.
const shareEvery = 2 * time.Second

// Route is the part of a destination that decides where outcomes go. It has no secret and no address.
type Route struct {
	Name     string
	Sessions []string // patterns of sessions: it receives their outcomes by default
	From     []string // patterns of further sessions that may name it
}

// Admits reports whether the session may use the destination. Without patterns every session may.
func (r Route) Admits(key string) bool {
	return len(r.Sessions)+len(r.From) == 0 || fits(r.Sessions, key) || fits(r.From, key)
}

// Routes are the routes of all destinations, in the order of their file.
type Routes []Route

// For returns the name of the first destination with a pattern that fits the session, or "".
func (all Routes) For(key string) string {
	for _, one := range all {
		if fits(one.Sessions, key) {
			return one.Name
		}
	}
	return ""
}

// Named returns the route of the destination, nil if there is none.
func (all Routes) Named(name string) *Route {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

// Routes returns the routes that all gateways share. After the file was opened or changed, it returns
// the file's until the next Share.
func (f *File) Routes() Routes {
	if shared := f.shared.Load(); shared != nil {
		return *shared
	}
	return f.Current().Routes()
}

// Known reports whether Routes are from a file, this one or another gateway's.
func (f *File) Known() bool { return f.path != "" || f.shared.Load() != nil }

// Default returns the destination of a session's messages by the patterns that gateways share, "" if
// they have none or no gateway has a file. It may be called on nil, which has no file.
func (f *File) Default(key string) string {
	if f == nil || !f.Known() {
		return ""
	}
	return f.Routes().For(key)
}

// Differs reports whether the shared routes differed from this file's when they were last read.
func (f *File) Differs() bool { return f.differs.Load() }

// Share makes all gateways route by one file, so that it does not matter which of them takes a message.
// That is the file that changed last while a gateway ran. A gateway that starts follows the others,
// because its file may be old. Its file decides after five rounds without a gateway that has the shared
// one.
func (f *File) Share(ctx context.Context, rdb redis.UniversalClient) error {
	return f.share(ctx, rdb, shareEvery)
}

func (f *File) share(ctx context.Context, rdb redis.UniversalClient, every time.Duration) error {
	current := f.Current()
	own, err := json.Marshal(current.Routes())
	if err != nil {
		return err
	}
	changed := f.own != "" && f.own != string(own)
	text, err := rdb.Get(ctx, rediskey.Routes).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	var shared Routes
	if f.path == "" {
		f.shared.Store(nil)
		if json.Unmarshal([]byte(text), &shared) == nil {
			f.shared.Store(&shared)
		}
		return nil
	}
	switch {
	case changed || json.Unmarshal([]byte(text), &shared) != nil:
		text, shared = string(own), current.Routes()
		err = rdb.Set(ctx, rediskey.Routes, text, 5*every).Err()
	case text == string(own):
		err = rdb.Expire(ctx, rediskey.Routes, 5*every).Err()
	}
	if err != nil {
		return err
	}
	f.own = string(own)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Current() != current {
		return nil // the next round shares the new routes
	}
	f.shared.Store(&shared)
	f.differs.Store(text != f.own)
	return nil
}

// KeepShared shares until ctx ends, and logs if another gateway's file decides.
func (f *File) KeepShared(ctx context.Context, rdb redis.UniversalClient, log *slog.Logger) {
	ticks := time.NewTicker(shareEvery)
	defer ticks.Stop()
	for warned := false; ; {
		err := f.Share(ctx, rdb)
		switch differs := f.Differs(); {
		case redis.HasErrorPrefix(err, "NOPERM"):
			log.Warn("gateways do not share their destinations: give the gateway's Redis user the rules of docs/security.md", "error", err)
			return
		case err != nil: // Redis is away
		case differs && !warned:
			log.Error("another gateway's file of destinations decides where outcomes go, not this one: give all gateways the same file", "file", f.path)
			warned = true
		case !differs && warned:
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
