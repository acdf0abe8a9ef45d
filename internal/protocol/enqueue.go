package protocol

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// nonceHeader marks a task with the Submit that stored it: only that Submit may remove it.
const nonceHeader = "turnstile-nonce"

// maxRetry is what asynqmon shows as a task's retries, and what a stock asynq.Server would do.
// Turnstile's workers have a limit of their own.
const maxRetry = 2

// enqueuesPerClient is how many messages one asynq.Client enqueues. It remembers the names of all
// its queues, so another one replaces it. That costs nothing, because they share the connections.
const enqueuesPerClient = 10_000

// Enqueuer enqueues tasks into sessions' queues. It lists the session in the indexes before it
// enqueues the task, because the sender may die right after that.
type Enqueuer struct {
	rdb    indexing
	limits session.Limits
	most   int

	mu     sync.Mutex
	client *asynq.Client
	left   int // enqueues until the next one
	clock  clock
}

// NewEnqueuer returns an enqueuer that shares rdb.
func NewEnqueuer(rdb redis.UniversalClient, limits session.Limits) *Enqueuer {
	return &Enqueuer{rdb: indexing{rdb}, limits: limits, most: enqueuesPerClient}
}

// next returns the asynq.Client for one message.
func (e *Enqueuer) next() *asynq.Client {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left == 0 {
		e.client, e.left = asynq.NewClientFromRedisClient(e.rdb), e.most
	}
	e.left--
	return e.client
}

// SetClock sets Redis' clock, in ms, as a result has just shown it.
func (e *Enqueuer) SetClock(now int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clock = clock{now, time.Now()}
}

// Now returns Redis' clock in ms. It asks Redis only if no result has shown the clock yet.
func (e *Enqueuer) Now(ctx context.Context) (int64, error) {
	e.mu.Lock()
	last := e.clock
	e.mu.Unlock()
	if last.ms > 0 {
		return last.now(), nil
	}
	now, err := e.rdb.Time(ctx).Result()
	if err != nil {
		return 0, err
	}
	e.SetClock(now.UnixMilli())
	return now.UnixMilli(), nil
}

// Enqueue enqueues the message. known reports that a task with its id exists.
func (e *Enqueuer) Enqueue(ctx context.Context, sessionKey string, m session.Message, nonce string, delay time.Duration) (known bool, err error) {
	payload, err := e.limits.EncodePayload(m)
	if err != nil {
		return false, err
	}
	opts := []asynq.Option{
		asynq.Queue(rediskey.Queue(sessionKey)),
		asynq.TaskID(rediskey.TaskID(sessionKey, m.ID)),
		asynq.MaxRetry(maxRetry),
	}
	if delay > 0 {
		opts = append(opts, asynq.ProcessIn(delay))
	}
	task := asynq.NewTaskWithHeaders(session.TaskType, payload, map[string]string{nonceHeader: nonce})
	now, err := e.Now(ctx)
	if err == nil {
		ctx = context.WithValue(ctx, indexKey{}, indexEntry{sessionKey, now})
		_, err = e.next().EnqueueContext(ctx, task, opts...)
	}
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("enqueue message %s of %s: %w", m.ID, sessionKey, Unchanged(err, false))
	}
	return false, nil
}

// indexKey is the context's key of an indexEntry.
type indexKey struct{}

// indexEntry is what the indexes get when a session's task is enqueued.
type indexEntry struct {
	session string
	now     int64
}

func (e indexEntry) add(ctx context.Context, p redis.Pipeliner) {
	p.SAdd(ctx, rediskey.AllQueues, rediskey.Queue(e.session))
	p.ZAdd(ctx, rediskey.Sessions, redis.Z{Score: float64(e.now), Member: e.session})
}

// indexing is the Redis of an asynq.Client. It sends the entries of the indexes ahead of the script
// that enqueues a task, in the same round trip. On a Cluster go-redis sends the parts of a pipeline
// to their nodes at once, so there the entries take a round trip of their own.
type indexing struct{ redis.UniversalClient }

// SAdd is how asynq.Client adds a queue's name, once. It is skipped here: indexEntry adds it with
// each task.
func (r indexing) SAdd(ctx context.Context, key string, members ...any) *redis.IntCmd {
	if _, ok := ctx.Value(indexKey{}).(indexEntry); ok && key == rediskey.AllQueues {
		return redis.NewIntResult(0, nil)
	}
	return r.UniversalClient.SAdd(ctx, key, members...)
}

// EvalSha sends one of asynq's scripts. If Redis does not know it, asynq sends it again by Eval; the
// indexes have their entries then.
func (r indexing) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	entry, ok := ctx.Value(indexKey{}).(indexEntry)
	if !ok {
		return r.UniversalClient.EvalSha(ctx, sha, keys, args...)
	}
	var enqueued *redis.Cmd
	failed := InOrder(ctx, r.UniversalClient,
		func(p redis.Pipeliner) { entry.add(ctx, p) },
		func(p redis.Pipeliner) { enqueued = p.EvalSha(ctx, sha, keys, args...) })
	if enqueued == nil {
		enqueued = redis.NewCmd(ctx)
		enqueued.SetErr(failed)
	}
	return enqueued
}
