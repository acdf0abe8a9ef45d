// Package record reads the records of sessions for senders and operators.
package record

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/agents"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// reads are the commands that read one session.
type reads struct {
	run, record, resume                   *redis.SliceCmd
	before, sentinel                      *redis.StringCmd // read before run, and after it
	ttl                                   *redis.DurationCmd
	pending, scheduled, retried, archived *redis.IntCmd
}

func readSession(ctx context.Context, p redis.Pipeliner, k rediskey.Session) reads {
	return reads{
		before:   p.Get(ctx, k.Sentinel()),
		run:      p.HMGet(ctx, k.Run(), "token", "worker", "fence", "phase", "started_at", "ids", "mode", "sid", "entries", "question", "answered", "ended_at", "questions", "hold"),
		record:   p.HMGet(ctx, k.Record(), "session_id", "title", "title_by", "queue", "reply_to", "dropped", "omitted", "omitted_told", "agent", "fence", "needs"),
		resume:   p.HMGet(ctx, k.Resume(), "pending", "reason", "marked_at", "interruptions", "suspended"),
		sentinel: p.Get(ctx, k.Sentinel()),
		ttl:      p.PTTL(ctx, k.Sentinel()),
		pending:  p.LLen(ctx, k.Pending()), scheduled: p.ZCard(ctx, k.Scheduled()),
		retried: p.ZCard(ctx, k.Retry()), archived: p.ZCard(ctx, k.Archived()),
	}
}

// broken names the first key of a wrong type, "" if there is none.
func (r reads) broken() string {
	for _, cmd := range []redis.Cmder{r.run, r.record, r.resume, r.sentinel, r.pending, r.scheduled, r.retried, r.archived} {
		if redisconn.WrongType(cmd.Err()) {
			return fmt.Sprint(cmd.Args()[1])
		}
	}
	return ""
}

// Info reads the state of one session. The error wraps session.ErrBroken if a key has a wrong type.
func Info(ctx context.Context, rdb redis.UniversalClient, key string) (session.Info, error) {
	infos, err := Infos(ctx, rdb, []string{key})
	switch {
	case err != nil:
	case infos[0].Broken != "":
		err = fmt.Errorf("%w: %s", session.ErrBroken, infos[0].Broken)
	default:
		return infos[0], nil
	}
	return session.Info{}, fmt.Errorf("read session %s: %w", key, err)
}

// Infos reads the states of sessions in one round trip. A session that is unknown is idle and empty. One with a
// key of a wrong type is Broken.
func Infos(ctx context.Context, rdb redis.UniversalClient, keys []string) ([]session.Info, error) {
	all := make([]reads, len(keys))
	var now *redis.TimeCmd
	cmds, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		now = p.Time(ctx)
		for i, key := range keys {
			all[i] = readSession(ctx, p, rediskey.For(key))
		}
		return nil
	})
	if err := redisconn.Failure(cmds, err); err != nil {
		return nil, err
	}
	infos := make([]session.Info, len(keys))
	for i, key := range keys {
		infos[i] = all[i].info(key, now.Val())
	}
	return infos, nil
}

// info decodes the reads of a session at the time now.
func (r reads) info(key string, now time.Time) session.Info {
	run, record := script.HashFields(r.run), script.HashFields(r.record)
	s := session.Info{
		Session: key, Phase: session.PhaseIdle, TranscriptID: record.Text("session_id"), Fence: run.Int("fence"),
		Waiting: int(r.pending.Val()), Delayed: int(r.scheduled.Val() + r.retried.Val()),
		DeadLetters: int(r.archived.Val()), Broken: r.broken(),
		Title: record.Text("title"), TitleBy: record.Text("title_by"), ReplyTo: record.Text("reply_to"),
	}
	if s.Agent = record.Text("agent"); s.Agent == "" && (s.Fence > 0 || record.Int("fence") > 0) {
		s.Agent = agents.Default
	}
	s.Resume = resumeOf(script.HashFields(r.resume))
	_ = json.Unmarshal([]byte(record.Text("queue")), &s.Queue) // settings that cannot be read count as none
	var dropped []string
	_ = json.Unmarshal([]byte(record.Text("dropped")), &dropped)
	if len(dropped) > 0 {
		s.Dropped = len(dropped) + int(max(record.Int("omitted")-record.Int("omitted_told"), 0))
	}
	if run.Text("sid") == s.TranscriptID { // otherwise no turn has run in the current transcript
		s.Entries = run.Int("entries")
	}
	phase, token := session.Phase(run.Text("phase")), r.sentinel.Val()
	dead := false
	if token == "" || token != run.Text("token") {
		s.Needs = protocol.NeededAgent(record.Text("needs"), time.UnixMilli(max(run.Int("started_at"), run.Int("ended_at"))), now)
		if phase == "" || phase == session.PhaseIdle {
			return s
		}
		if dead = phase != session.PhaseParked; dead && r.before.Val() == run.Text("token") {
			return s // it has just ended
		}
		phase = session.PhaseParked // a worker's death is a park that nobody wrote
	}
	fence, prefix := run.Text("fence"), rediskey.IDPrefix(key)
	if s.Phase = phase; phase != session.PhaseParked {
		s.Worker, s.LeaseLeft = run.Text("worker"), r.ttl.Val()
	}
	s.Turn = prefix + fence
	s.StartedAt = time.UnixMilli(run.Int("started_at"))
	s.Running = now.Sub(s.StartedAt)
	s.Mode = session.Mode(run.Text("mode"))
	if !dead { // whose question ended with its worker
		s.Question = protocol.OpenQuestion(key, fence, run.Text("question"), run.Text("answered"), run.Text("questions"))
		s.WaitsFor, s.Until = protocol.OpenWait(fence, run.Text("question"), run.Text("answered"), run.Text("questions"))
		if s.WaitsFor == "" {
			s.Until = until(s, run.Int("hold"), now)
		}
	}
	var ids []string
	_ = json.Unmarshal([]byte(run.Text("ids")), &ids) // a list that cannot be read counts as empty
	for _, id := range ids {
		s.Messages = append(s.Messages, protocol.MessageID(prefix, id))
	}
	return s
}

// until is Info.Until of a turn that does not wait for a program or a time. hold is the run record's field, ms.
func until(s session.Info, hold int64, now time.Time) time.Time {
	if q := s.Question; q != nil {
		if q.Timeout <= 0 || q.AskedAt.IsZero() {
			return time.Time{}
		}
		return q.AskedAt.Add(time.Duration(q.Timeout))
	}
	if hold > now.UnixMilli() && s.Phase == session.PhaseParked {
		return time.UnixMilli(hold)
	}
	return time.Time{}
}

func resumeOf(f script.Fields) session.Resume {
	r := session.Resume{
		Pending: f.Int("pending") == 1, Reason: f.Text("reason"), Interruptions: int(f.Int("interruptions")), Suspended: f.Int("suspended") == 1,
	}
	if ms := f.Int("marked_at"); ms > 0 {
		r.At = time.UnixMilli(ms)
	}
	return r
}
