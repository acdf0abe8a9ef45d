// Package harvest reads Redis at the end of a run of chaos or simulate into the history: the end of each
// message, every transcript and stream, and leftovers.
package harvest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol/stream"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/history"
)

// Harvest reads.
type Harvest struct {
	log    *history.Log
	rdb    redis.UniversalClient
	client *turnstile.Client
	admin  *admin.Client
}

// New makes a Harvest that reads from Redis into a log.
func New(rdb redis.UniversalClient, log *history.Log) *Harvest {
	return &Harvest{log: log, rdb: rdb, client: turnstile.NewClient(rdb), admin: admin.NewClient(rdb)}
}

// All records everything that the checker compares with the history so far, for some sessions.
func (h *Harvest) All(ctx context.Context, records []history.Record, sessions []string) error {
	if err := errors.Join(h.messages(ctx, records), h.refused(ctx, records), h.transcripts(ctx)); err != nil {
		return err
	}
	for _, session := range sessions {
		if err := h.events(ctx, session); err != nil {
			return err
		}
	}
	return nil
}

// The suffixes of the keys that exist only while something waits, runs or is to be delivered.
var transient = []string{
	"}:sentinel", "}:followups", "}:stopped", "}:owed", "}:outbox",
	"}:pending", "}:active", "}:scheduled", "}:retry", "}:lease", "}:paused",
}

// Left returns an error that names the keys of messages and deliveries that wait or run. A
// journal counts too, unless it may stay in its session.
func (h *Harvest) Left(ctx context.Context, mayStay func(session string) bool) error {
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
		session, work := strings.CutSuffix(strings.TrimPrefix(key, "turnstile:{session:"), "}:journal")
		if slices.ContainsFunc(transient, func(end string) bool { return strings.HasSuffix(key, end) }) || work && !mayStay(session) {
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

// messages records the end of each message.
func (h *Harvest) messages(ctx context.Context, records []history.Record) error {
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
			f.Status, f.Reply, f.Error, f.Turn, f.SID = string(o.Status), o.Reply, o.Why(), o.Turn, o.TranscriptID
		}
		h.log.Add(f)
	}
	return nil
}

// transcripts records all transcripts' entries.
func (h *Harvest) transcripts(ctx context.Context) error {
	var keys []string
	err := h.scan(ctx, "turnstile:{session:*}:transcript:*", func(key string) { keys = append(keys, key) })
	if err != nil {
		return err
	}
	for _, key := range keys {
		session, sid, _ := strings.Cut(strings.TrimPrefix(key, "turnstile:{session:"), "}:transcript:")
		entries, err := actors.Transcript(ctx, h.client.Session(session), sid)
		if err != nil {
			return err
		}
		for i, e := range entries {
			rec := history.Record{
				Kind: history.Entry, Session: session, SID: sid, N: int64(i), Role: string(e.Role), ID: e.Message, Turn: e.Turn, Text: e.Text,
			}
			if e.Tool != nil {
				rec.Name = e.Tool.Name
			}
			if e.Ended != nil {
				rec.Status = string(e.Ended.Status)
			}
			h.log.Add(rec)
		}
	}
	return nil
}

// events records all events of a session's stream, with their IDs as docs/events.md numbers them.
func (h *Harvest) events(ctx context.Context, session string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	last, err := stream.LastEventID(ctx, h.rdb, session)
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
				h.log.Add(history.Record{Kind: history.Event, Session: session, ID: fmt.Sprintf("%s.%d", e.ID, n), Text: fmt.Sprint(text)})
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
		if err := h.admin.Session(s).Erase(ctx, admin.EraseUndelivered()); err != nil {
			h.log.Add(history.Record{Kind: history.Left, Name: "session", Target: s, Error: "erase: " + err.Error()})
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
			h.log.Add(history.Record{Kind: history.Left, Name: "key", Target: key, Error: "its session was erased"})
		}
	}
	return nil
}
