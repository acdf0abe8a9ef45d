package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
)

// Session returns the state of one session, read in one round trip. An unknown session is idle and
// empty. The error wraps session.ErrInvalid if the session key is wrong.
func (a *Client) Session(ctx context.Context, sessionKey string) (session.Info, error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return session.Info{}, err
	}
	infos, err := a.sessions(ctx, []string{sessionKey})
	if err != nil {
		return session.Info{}, fmt.Errorf("read session %s: %w", sessionKey, err)
	}
	return infos[0], nil
}

// BusySessions returns the sessions in which a turn runs or messages wait, in no order. It reads
// only the indexes of such sessions, so idle sessions cost nothing.
func (a *Client) BusySessions(ctx context.Context) ([]session.Info, error) {
	seen := map[string]bool{}
	var keys []string
	for _, index := range []string{rediskey.Owned, rediskey.Ready, rediskey.Due} {
		members, err := a.rdb.ZRange(ctx, index, 0, -1).Result()
		if err != nil {
			return nil, fmt.Errorf("list sessions: %w", err)
		}
		for _, m := range protocol.NewWalker(a.rdb).ValidNames(members) {
			if !seen[m] {
				seen[m] = true
				keys = append(keys, m)
			}
		}
	}
	var busy []session.Info
	for len(keys) > 0 {
		n := min(len(keys), protocol.WalkBatch)
		infos, err := a.sessions(ctx, keys[:n])
		if err != nil {
			return nil, fmt.Errorf("list sessions: %w", err)
		}
		for _, s := range infos {
			if s.Phase != session.PhaseIdle || s.Pending+s.Scheduled > 0 {
				busy = append(busy, s)
			}
		}
		keys = keys[n:]
	}
	return busy, nil
}

func (a *Client) sessions(ctx context.Context, keys []string) ([]session.Info, error) {
	type reads struct {
		run, record                           *redis.SliceCmd
		sentinel                              *redis.StringCmd
		ttl                                   *redis.DurationCmd
		pending, scheduled, retried, archived *redis.IntCmd
	}
	all := make([]reads, len(keys))
	var now *redis.TimeCmd
	_, err := a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
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
	if err != nil && err != redis.Nil { //nolint:errorlint // the pipeline returns the Nil of a free sentinel as it is
		return nil, err
	}
	infos := make([]session.Info, len(keys))
	for i, key := range keys {
		r, rec := script.Result(all[i].run.Val()), script.Result(all[i].record.Val())
		s := session.Info{
			Session: key, Phase: session.PhaseIdle, SessionID: rec.Text(0), Fence: protocol.Number(r.Text(2)),
			Pending: int(all[i].pending.Val()), Scheduled: int(all[i].scheduled.Val() + all[i].retried.Val()),
			Archived: int(all[i].archived.Val()),
		}
		s.Title, s.TitleBy = rec.Text(1), rec.Text(2)
		_ = json.Unmarshal([]byte(rec.Text(3)), &s.Settings) // settings that cannot be read count as none
		var dropped []string
		_ = json.Unmarshal([]byte(rec.Text(4)), &dropped)
		if len(dropped) > 0 {
			s.Dropped = len(dropped) + int(max(protocol.Number(rec.Text(5))-protocol.Number(rec.Text(6)), 0))
		}
		if r.Text(7) == s.SessionID { // otherwise no turn has run in the current transcript
			s.Entries = protocol.Number(r.Text(8))
		}
		if token := all[i].sentinel.Val(); token != "" && token == r.Text(0) {
			prefix := rediskey.IDPrefix(key)
			s.Phase, s.Worker, s.Left = r.Text(3), r.Text(1), all[i].ttl.Val()
			s.Turn = prefix + r.Text(2)
			s.StartedAt = time.UnixMilli(protocol.Number(r.Text(4)))
			s.Since = now.Val().Sub(s.StartedAt)
			s.Mode = session.Mode(r.Text(6))
			s.Question = protocol.OpenQuestion(r.Text(2), r.Text(9), r.Text(10))
			var ids []string
			_ = json.Unmarshal([]byte(r.Text(5)), &ids) // a list that cannot be read counts as empty
			for _, id := range ids {
				s.Messages = append(s.Messages, protocol.MessageID(prefix, id))
			}
		}
		infos[i] = s
	}
	return infos, nil
}

// ResumeRecord returns a session's resume record, which says whether its next turn resumes an
// interrupted one. It is zero if the last turn ended well.
func (a *Client) ResumeRecord(ctx context.Context, sessionKey string) (resume.Record, error) {
	return resume.Read(ctx, a.rdb, sessionKey)
}
