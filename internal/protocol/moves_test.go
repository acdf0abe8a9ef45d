package protocol_test

import (
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// enqueue puts a message in without ringing, as a sender that died does.
func (b *bench) enqueue(id string, opts ...asynq.Option) {
	b.Helper()
	client := asynq.NewClientFromRedisClient(b.rdb)
	task := asynq.NewTaskWithHeaders(session.TaskType, []byte(fmt.Sprintf(`{"v":1,"text":%q}`, id)), map[string]string{"turnstile-nonce": "nonce-" + id})
	opts = append([]asynq.Option{asynq.Queue(rediskey.Queue(key)), asynq.TaskID(b.task(id))}, opts...)
	_, err := client.EnqueueContext(b.ctx, task, opts...)
	expect.OK(b, err)
}

// enqueueRaw puts any task into the session's queue.
func (b *bench) enqueueRaw(kind, payload, id string, opts ...asynq.Option) {
	b.Helper()
	opts = append([]asynq.Option{asynq.Queue(rediskey.Queue(key)), asynq.TaskID(id)}, opts...)
	_, err := asynq.NewClientFromRedisClient(b.rdb).EnqueueContext(b.ctx, asynq.NewTask(kind, []byte(payload)), opts...)
	expect.OK(b, err)
}

// ring is the sender's second half.
func (b *bench) ring(id string, mode session.Mode) error { return b.ringAs(id, mode, 10_000) }

// ringAs is ring with another cap of the line.
func (b *bench) ringAs(id string, mode session.Mode, lineCap int) error {
	return sq.Do(b.ctx, b.rdb, "notify", sq.KeysOf(key, ""), []string{b.k.Call("nonce-" + id)}, "events_cap", 1000, "short", 0, "large_bytes", 0, "longest", 4<<20,
		"session", key, "id", b.task(id), "nonce", "nonce-"+id, "followup", fmt.Sprintf(`{"id":%q,"text":%q}`, id, id),
		"mode", string(mode), "found", false, "line_cap", lineCap).Err()
}

// trim archives a batch of what is over the cap.
func (b *bench) trim(most int) func() error {
	return func() error {
		return sq.Do(b.ctx, b.rdb, "trim", sq.KeysOf(key, ""), nil, "line_cap", most, "events_cap", 1000, "short", 0, "large_bytes", 0, "longest", 4<<20).Err()
	}
}

// backdate makes a delayed message due.
func (b *bench) backdate(id string) {
	b.rdb.ZAddXX(b.ctx, b.k.Scheduled(), redis.Z{Score: float64(time.Now().Unix() - 60), Member: b.task(id)})
}

func (b *bench) delayed(id string) {
	b.Helper()
	_, err := b.client.Submit(b.ctx, key, session.Message{ID: id, Text: id}, turnstile.Delay(time.Hour))
	expect.OK(b, err)
	b.backdate(id)
}

func claimMove(b *bench) func() error {
	return func() error {
		_, err := b.c.Claim(b.ctx, []string{key})
		return err
	}
}

func finishMove(b *bench, h *sq.Claim, status session.Status, release bool) func() error {
	return func() error {
		_, err := h.Finish(b.ctx, sq.End{Status: status, Error: "why", Entries: []session.Entry{{Role: session.RoleUser, Text: "t"}}, Release: release})
		return err
	}
}

// stopInPart stops with one message as a batch, once.
func (b *bench) stopInPart() error {
	until := b.redisTime().Add(time.Minute).UnixMilli()
	return sq.Do(b.ctx, b.rdb, "stop", sq.KeysOf(key, ""), []string{b.k.Call("in part")},
		"batch_limits", "1 1", "number", 1, "events_cap", 1000, "short", 0, "large_bytes", 0, "deadline", until, "longest", 4<<20).Err()
}

func ringMove(b *bench, id string, mode session.Mode) func() error {
	b.enqueue(id)
	return func() error { return b.ring(id, mode) }
}

// collected puts messages in that are one turn together, their window over.
func (b *bench) collected(ids ...string) {
	b.Helper()
	for _, id := range ids {
		b.say(id, session.ModeCollect)
		b.rdb.HSet(b.ctx, b.k.Task(b.task(id)), "quiet", "1 100")
	}
}

// retract is the move that takes the last turn out of the transcript, be it to run
// a message again.
func (b *bench) retract(task, msg string) func() error {
	b.Helper()
	s := b.info()
	entries, err := b.client.Transcript(b.ctx, key, s.SessionID)
	expect.OK(b, err)
	turn, n := "none", 0
	for _, e := range entries {
		if e.Turn != turn {
			turn, n = e.Turn, 0
		}
		n++
	}
	return func() error {
		return sq.Do(b.ctx, b.rdb, "undo", sq.KeysOf(key, s.SessionID), []string{b.k.Call("undo-" + turn)}, "turn", turn, "id", task, "msg", msg,
			"sid", s.SessionID, "entries", n, "length", b.rdb.LLen(b.ctx, b.k.Transcript(s.SessionID)).Val(), "written", s.Entries).Err()
	}
}
