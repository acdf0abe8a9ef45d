// Package harvest reads a world at the end of a run into its history: how each message ended, every
// transcript and stream, and what is left that should not be.
package harvest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/chaos/internal/history"
	"turnstile/chaos/internal/traffic"
	"turnstile/chaos/internal/world"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
)

// Harvest reads a world.
type Harvest struct {
	World *world.World
	Log   *history.Log

	rdb    redis.UniversalClient
	client *turnstile.Client
	admin  *admin.Client
}

// New makes a Harvest. Close it.
func New(w *world.World, log *history.Log) *Harvest {
	rdb := w.Client()
	return &Harvest{World: w, Log: log, rdb: rdb, client: turnstile.NewClient(rdb), admin: admin.NewClient(rdb)}
}

// Close closes its connections.
func (h *Harvest) Close() { _ = h.rdb.Close() }

// Drained waits until nothing waits, runs or is owed, for patience at most, and records whether that
// came to be.
func (h *Harvest) Drained(ctx context.Context, patience time.Duration) {
	told := time.Now()
	err := world.Await(ctx, patience, func() error {
		time.Sleep(200 * time.Millisecond) // it reads much
		err := h.busy(ctx)
		if err != nil && time.Since(told) > 10*time.Second {
			told = time.Now()
			fmt.Println("chaos:", err)
		}
		return err
	})
	status := "ok"
	if err != nil {
		status = fmt.Sprintf("after %s: %v", patience, err)
	}
	h.Log.Add(history.Record{Kind: history.Drained, Status: status})
}

// The ends of the keys that exist only while something waits, runs or is owed.
var transient = []string{
	"}:sentinel", "}:followups", "}:stopped", "}:owed", "}:outbox",
	"}:pending", "}:active", "}:scheduled", "}:retry", "}:lease", "}:paused",
}

// isStalePartial reports whether a key is the partial of a session in which no turn runs. What a user
// or an operator stops while it waits to go on keeps its partial, for /resume, until that expires.
func isStalePartial(key string) bool {
	session, ok := strings.CutSuffix(strings.TrimPrefix(key, "turnstile:{session:"), "}:partial")
	return ok && traffic.KindOf(session) != traffic.Commands && traffic.KindOf(session) != traffic.Operators
}

// busy returns an error that names what is there.
func (h *Harvest) busy(ctx context.Context) error {
	var found []string
	for _, index := range []string{"turnstile:ready", "turnstile:due", "turnstile:owned", "turnstile:outbox"} {
		names, err := h.rdb.ZRange(ctx, index, 0, 4).Result()
		if err != nil {
			return err
		}
		for _, name := range names {
			found = append(found, index+" has "+name)
		}
	}
	err := h.scan(ctx, "*{session:*", func(key string) {
		if slices.ContainsFunc(transient, func(end string) bool { return strings.HasSuffix(key, end) }) || isStalePartial(key) {
			found = append(found, key)
		}
	})
	if err != nil || len(found) == 0 {
		return err
	}
	return fmt.Errorf("%d are left: %s", len(found), strings.Join(found[:min(len(found), 8)], ", "))
}

// scan reads the names of all keys with a pattern.
func (h *Harvest) scan(ctx context.Context, pattern string, see func(key string)) error {
	var mu sync.Mutex
	node := func(ctx context.Context, rdb *redis.Client) error {
		it := rdb.Scan(ctx, 0, pattern, 5000).Iterator()
		for it.Next(ctx) {
			mu.Lock()
			see(it.Val())
			mu.Unlock()
		}
		return it.Err()
	}
	switch rdb := h.rdb.(type) {
	case *redis.ClusterClient:
		return rdb.ForEachMaster(ctx, node)
	case *redis.Client:
		return node(ctx, rdb)
	}
	return fmt.Errorf("scan: a client of type %T", h.rdb)
}

// Messages records how each message that a sender has sent has ended.
func (h *Harvest) Messages(ctx context.Context, records []history.Record) error {
	type key struct{ session, id string }
	done := map[key]bool{}
	for _, r := range records {
		k := key{r.Session, r.ID}
		if r.Kind != history.Send || done[k] {
			continue
		}
		done[k] = true
		f := history.Record{Kind: history.Final, Session: r.Session, ID: r.ID}
		state, o, ended, err := actors.MessageState(ctx, h.client.Session(r.Session), r.ID)
		switch {
		case errors.Is(err, session.ErrNotFound):
			f.Reason = "unknown"
		case err != nil:
			return err
		case !ended:
			f.Reason = state
		default:
			f.Status, f.Reply, f.Error, f.Turn, f.SID = string(o.Status), o.Reply, o.Why(), o.Turn, o.SessionID
		}
		h.Log.Add(f)
	}
	return nil
}

// Transcripts records all transcripts' entries.
func (h *Harvest) Transcripts(ctx context.Context) error {
	var keys []string
	err := h.scan(ctx, "turnstile:{session:*}:transcript:*", func(key string) { keys = append(keys, key) })
	if err != nil {
		return err
	}
	for _, key := range keys {
		session, sid, _ := strings.Cut(strings.TrimPrefix(key, "turnstile:{session:"), "}:transcript:")
		entries, err := h.admin.Session(session).Transcript(ctx, sid)
		if err != nil {
			return err
		}
		for i, e := range entries {
			h.Log.Add(history.Record{
				Kind: history.Entry, Session: session, SID: sid, N: int64(i), Role: string(e.Role), ID: e.Message, Turn: e.Turn, Text: e.Text,
			})
		}
	}
	return nil
}

// Events records all events of a session's stream, with their ids as docs/events.md numbers them.
func (h *Harvest) Events(ctx context.Context, session string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	last, err := h.admin.LastEventID(ctx, session)
	if err != nil || last == "" {
		return err
	}
	entries, err := h.rdb.XRange(ctx, "turnstile:{session:"+session+"}:events", "-", "+").Result()
	if err != nil {
		return err
	}
	for _, e := range entries {
		n := 0
		for _, field := range []string{"s", "e", "n"} { // the order in which they count
			if text, ok := e.Values[field]; ok {
				h.Log.Add(history.Record{Kind: history.Event, Session: session, ID: fmt.Sprintf("%s.%d", e.ID, n), Text: fmt.Sprint(text)})
				n++
			}
		}
	}
	return nil
}

// Erased deletes all sessions and records every key that stays, except asynq's counters of a day,
// which expire.
func (h *Harvest) Erased(ctx context.Context, sessions []string) error {
	for _, s := range sessions {
		if err := h.admin.Erase(ctx, s, admin.EraseUndelivered()); err != nil {
			h.Log.Add(history.Record{Kind: history.Left, Name: "session", Target: s, Error: "erase: " + err.Error()})
		}
	}
	var keys []string
	if err := h.scan(ctx, "*{session:*", func(key string) { keys = append(keys, key) }); err != nil {
		return err
	}
	for _, key := range keys {
		ttl, err := h.rdb.TTL(ctx, key).Result()
		if err != nil {
			return err
		}
		counter := strings.Contains(key, "}:processed:") || strings.Contains(key, "}:failed:")
		if ttl == -1 || !counter {
			h.Log.Add(history.Record{Kind: history.Left, Name: "key", Target: key, Error: "its session was erased"})
		}
	}
	return nil
}

// Processes records the processes that live though their workers have ended.
func (h *Harvest) Processes(ctx context.Context) {
	// A killed process is there until its parent has waited for it.
	_ = world.Await(ctx, 5*time.Second, func() error {
		if left := h.World.Leftovers(); len(left) > 0 {
			return errors.New(left[0])
		}
		return nil
	})
	for _, p := range h.World.Leftovers() {
		h.Log.Add(history.Record{Kind: history.Left, Name: "process", Target: p, Error: "it lives, and its worker has ended"})
	}
}

// Panics records what the processes' logs have of panics and races.
func (h *Harvest) Panics() error {
	logs, err := filepath.Glob(filepath.Join(h.World.Dir, "logs", "*.log"))
	if err != nil {
		return err
	}
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.Contains(line, "WARNING: DATA RACE") {
				h.Log.Add(history.Record{Kind: history.Left, Name: "panic", Target: filepath.Base(name), Error: strings.TrimSpace(line)})
			}
		}
	}
	return nil
}
