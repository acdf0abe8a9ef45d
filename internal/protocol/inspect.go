package protocol

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/followup"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
)

// PhaseIdle is the phase of a session that nobody owns.
const PhaseIdle = "idle"

// SessionInfo is what is known of a session.
type SessionInfo struct {
	Session   string
	SessionID string // "" before its first turn
	Phase     string // idle, starting or running
	Worker    string // the owner's, "" if idle
	Fence     int64  // of the turn that runs, or of the last one
	Turn      string // the id of the turn that runs
	Messages  []string

	Question *Question // what the turn's agent asks the user, nil: nothing

	StartedAt time.Time     // when the turn was claimed, by Redis' clock
	Since     time.Duration // how long it has been running
	Mode      session.Mode  // what a message does that names no mode, while the turn runs
	Left      time.Duration // how long the sentinel lives without renewal
	Pending   int           // messages that wait in line
	Scheduled int           // messages that wait for their time
	Archived  int           // dead letters
	Entries   int64         // of the transcript

	Title    string            // of the session id, "" if it has none
	TitleBy  string            // who gave it: user or agent
	Settings followup.Settings // of /queue; zero fields mean the worker's
	Dropped  int               // messages dropped from a full line, of which the next turn is told, with a line or as a number
}

// Session reads one session. One that was never heard of reads as idle and empty.
func (c *Client) Session(ctx context.Context, key string) (SessionInfo, error) {
	if err := session.ValidateKey(key); err != nil {
		return SessionInfo{}, err
	}
	infos, err := c.sessions(ctx, []string{key})
	if err != nil {
		return SessionInfo{}, fmt.Errorf("read session %s: %w", key, err)
	}
	return infos[0], nil
}

// Busy lists the sessions in which something runs or waits, among those of the
// indexes, which are bounded by what goes on.
func (c *Client) Busy(ctx context.Context) ([]SessionInfo, error) {
	seen := map[string]bool{}
	var keys []string
	for _, index := range []string{rediskey.Owned, rediskey.Ready, rediskey.Due} {
		members, err := c.rdb.ZRange(ctx, index, 0, -1).Result()
		if err != nil {
			return nil, fmt.Errorf("list sessions: %w", err)
		}
		for _, m := range (walker{}).named(members) {
			if !seen[m] {
				seen[m] = true
				keys = append(keys, m)
			}
		}
	}
	var busy []SessionInfo
	for len(keys) > 0 {
		n := min(len(keys), walkBatch)
		infos, err := c.sessions(ctx, keys[:n])
		if err != nil {
			return nil, fmt.Errorf("list sessions: %w", err)
		}
		for _, s := range infos {
			if s.Phase != PhaseIdle || s.Pending+s.Scheduled > 0 {
				busy = append(busy, s)
			}
		}
		keys = keys[n:]
	}
	return busy, nil
}

func (c *Client) sessions(ctx context.Context, keys []string) ([]SessionInfo, error) {
	type reads struct {
		run, record                           *redis.SliceCmd
		sentinel                              *redis.StringCmd
		ttl                                   *redis.DurationCmd
		pending, scheduled, retried, archived *redis.IntCmd
	}
	all := make([]reads, len(keys))
	var now *redis.TimeCmd
	_, err := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		now = p.Time(ctx)
		for i, key := range keys {
			k := rediskey.For(key)
			all[i] = reads{
				run:      p.HMGet(ctx, k.Run(), "token", "worker", "fence", "phase", "started_at", "ids", "mode", "sid", "entries", "question", "answered"),
				record:   p.HMGet(ctx, k.Record(), "session_id", "title", "title_by", "queue", "dropped", "omitted", "omitted_told"),
				sentinel: p.Get(ctx, k.Sentinel()),
				ttl:      p.PTTL(ctx, k.Sentinel()),
				pending:  p.LLen(ctx, k.Pending()), scheduled: p.ZCard(ctx, k.Scheduled()),
				retried: p.ZCard(ctx, k.Retry()), archived: p.ZCard(ctx, k.Archived()),
			}
		}
		return nil
	})
	if err != nil && err != redis.Nil { //nolint:errorlint // the pipeline answers a free sentinel's Nil as it is
		return nil, err
	}
	infos := make([]SessionInfo, len(keys))
	for i, key := range keys {
		r, rec := answer(all[i].run.Val()), answer(all[i].record.Val())
		s := SessionInfo{
			Session: key, Phase: PhaseIdle, SessionID: rec.str(0), Fence: number(r.str(2)),
			Pending: int(all[i].pending.Val()), Scheduled: int(all[i].scheduled.Val() + all[i].retried.Val()),
			Archived: int(all[i].archived.Val()),
		}
		s.Title, s.TitleBy = rec.str(1), rec.str(2)
		_ = json.Unmarshal([]byte(rec.str(3)), &s.Settings) // what cannot be read says nothing
		var dropped []string
		_ = json.Unmarshal([]byte(rec.str(4)), &dropped)
		if len(dropped) > 0 {
			s.Dropped = len(dropped) + int(max(number(rec.str(5))-number(rec.str(6)), 0))
		}
		if r.str(7) == s.SessionID { // else it has begun anew since the last turn
			s.Entries = number(r.str(8))
		}
		if token := all[i].sentinel.Val(); token != "" && token == r.str(0) {
			prefix := session.IDPrefix(key)
			s.Phase, s.Worker, s.Left = r.str(3), r.str(1), all[i].ttl.Val()
			s.Turn = prefix + r.str(2)
			s.StartedAt = time.UnixMilli(number(r.str(4)))
			s.Since = now.Val().Sub(s.StartedAt)
			s.Mode = session.Mode(r.str(6))
			s.Question = openQuestion(r.str(2), r.str(9), r.str(10))
			var ids []string
			_ = json.Unmarshal([]byte(r.str(5)), &ids) // as above: one record is not to hide all the others
			for _, id := range ids {
				s.Messages = append(s.Messages, messageID(prefix, id))
			}
		}
		infos[i] = s
	}
	return infos, nil
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// Transcript reads a transcript, oldest entry first.
func (c *Client) Transcript(ctx context.Context, key, sessionID string) ([]session.Entry, error) {
	return session.ReadTranscript(ctx, c.rdb, key, sessionID)
}

// Followups reads what waits behind the running turn, oldest first.
func (c *Client) Followups(ctx context.Context, key string) ([]followup.Followup, error) {
	return followup.List(ctx, c.rdb, key)
}

// ResumeRecord reads the session's resume record.
func (c *Client) ResumeRecord(ctx context.Context, key string) (resume.Record, error) {
	return resume.Read(ctx, c.rdb, key)
}
