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

// reads are the commands that read one session.
type reads struct {
	run, record                           *redis.SliceCmd
	sentinel                              *redis.StringCmd
	ttl                                   *redis.DurationCmd
	pending, scheduled, retried, archived *redis.IntCmd
}

func readSession(ctx context.Context, p redis.Pipeliner, k rediskey.Session) reads {
	return reads{
		run:      p.HMGet(ctx, k.Run(), "token", "worker", "fence", "phase", "started_at", "ids", "mode", "sid", "entries", "question", "answered"),
		record:   p.HMGet(ctx, k.Record(), "session_id", "title", "title_by", "queue", "reply_to", "dropped", "omitted", "omitted_told"),
		sentinel: p.Get(ctx, k.Sentinel()),
		ttl:      p.PTTL(ctx, k.Sentinel()),
		pending:  p.LLen(ctx, k.Pending()), scheduled: p.ZCard(ctx, k.Scheduled()),
		retried: p.ZCard(ctx, k.Retry()), archived: p.ZCard(ctx, k.Archived()),
	}
}

func (a *Client) sessions(ctx context.Context, keys []string) ([]session.Info, error) {
	all := make([]reads, len(keys))
	var now *redis.TimeCmd
	_, err := a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		now = p.Time(ctx)
		for i, key := range keys {
			all[i] = readSession(ctx, p, rediskey.For(key))
		}
		return nil
	})
	if err != nil && err != redis.Nil { //nolint:errorlint // the pipeline returns the Nil of a free sentinel as it is
		return nil, err
	}
	infos := make([]session.Info, len(keys))
	for i, key := range keys {
		infos[i] = all[i].info(key, now.Val())
	}
	return infos, nil
}

// info decodes what was read of a session at the time now.
func (r reads) info(key string, now time.Time) session.Info {
	run, record := script.HashFields(r.run), script.HashFields(r.record)
	s := session.Info{
		Session: key, Phase: session.PhaseIdle, SessionID: record.Text("session_id"), Fence: run.Int("fence"),
		Pending: int(r.pending.Val()), Scheduled: int(r.scheduled.Val() + r.retried.Val()),
		Archived: int(r.archived.Val()),
		Title:    record.Text("title"), TitleBy: record.Text("title_by"), ReplyTo: record.Text("reply_to"),
	}
	_ = json.Unmarshal([]byte(record.Text("queue")), &s.Settings) // settings that cannot be read count as none
	var dropped []string
	_ = json.Unmarshal([]byte(record.Text("dropped")), &dropped)
	if len(dropped) > 0 {
		s.Dropped = len(dropped) + int(max(record.Int("omitted")-record.Int("omitted_told"), 0))
	}
	if run.Text("sid") == s.SessionID { // otherwise no turn has run in the current transcript
		s.Entries = run.Int("entries")
	}
	if token := r.sentinel.Val(); token == "" || token != run.Text("token") {
		return s
	}
	fence, prefix := run.Text("fence"), rediskey.IDPrefix(key)
	s.Phase, s.Worker, s.Left = run.Text("phase"), run.Text("worker"), r.ttl.Val()
	s.Turn = prefix + fence
	s.StartedAt = time.UnixMilli(run.Int("started_at"))
	s.Since = now.Sub(s.StartedAt)
	s.Mode = session.Mode(run.Text("mode"))
	s.Question = protocol.OpenQuestion(key, fence, run.Text("question"), run.Text("answered"))
	var ids []string
	_ = json.Unmarshal([]byte(run.Text("ids")), &ids) // a list that cannot be read counts as empty
	for _, id := range ids {
		s.Messages = append(s.Messages, protocol.MessageID(prefix, id))
	}
	return s
}

// ResumeRecord returns a session's resume record, which says whether its next turn resumes an
// interrupted one. It is zero if the last turn ended well.
func (a *Client) ResumeRecord(ctx context.Context, sessionKey string) (resume.Record, error) {
	return resume.Read(ctx, a.rdb, sessionKey)
}
