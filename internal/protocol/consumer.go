package protocol

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/pkg/session"
)

// Config are the rules by which a Consumer owns sessions. Zero values mean the
// defaults of New.
type Config struct {
	// Worker names the owner in the run record and its signal channel. Required.
	Worker string

	// SentinelTTL is how long a sentinel lives without renewal. Defaults to 15 s.
	SentinelTTL time.Duration

	// Immediate claims turns as running: the agent has no start of its own.
	Immediate bool

	// Warm says that the worker keeps sessions' agents between turns: it is told
	// first of messages for sessions that it had.
	Warm bool

	// Line is what messages do that find their session busy, where neither they
	// nor their session say. Defaults to followup.DefaultSettings.
	Line session.QueueSettings

	// StuckLimit is how many interruptions in a row, without a finished turn
	// between them, suspend the session. If the last one was a worker's death, the
	// message is archived as well. Defaults to 3.
	StuckLimit int

	// CrashPolicy is what a worker's death in mid-turn does. Defaults to
	// CrashResume.
	CrashPolicy CrashPolicy

	// Limits bound one message. One that breaks them is archived with the reason.
	Limits session.Limits

	// LineCap is how many messages may wait in one session; delayed ones are counted by
	// themselves. Senders refuse more, see ClientConfig. Of others' messages those that
	// came last are archived, see Trim: but TurnMessages above the cap are left, which a
	// turn may have given back. Defaults to 10,000.
	LineCap int

	// TurnMessages is how many messages a turn has at most, collected and steered in.
	// What is beyond that waits for the next turn. Defaults to 500.
	TurnMessages int

	// TurnBytes is how much they have, in bytes as their tasks are stored. A turn has
	// one message, however long. Defaults to 4 MiB.
	TurnBytes int

	// Retention is how long an ended message's result is kept, in whole seconds.
	// 0 keeps none.
	Retention time.Duration

	// EventsCap is about how many events a session's stream keeps. Defaults to 1,000.
	EventsCap int

	// EventsBytes is how many bytes the events of a stream have at most, the oldest go
	// first. An event that alone is longer stays until the next one. Defaults to 8 MiB.
	EventsBytes int

	// TranscriptCap is how many entries a transcript keeps. Defaults to 2,000.
	TranscriptCap int

	// TranscriptBytes is how much of Redis' memory a transcript takes at most, the oldest
	// entries go first. One entry has at most a sixteenth of it in bytes, but always as
	// much as a message may. Defaults to 64 MiB.
	TranscriptBytes int

	// HistoryBytes is how much of a transcript, in bytes as it is stored, a turn is
	// told at most: its newest turns, see Past. Defaults to 16 MiB.
	HistoryBytes int

	// TranscriptTTL and SessionTTL are how long a transcript and a session's
	// record outlive their last use. Default to 30 days.
	TranscriptTTL, SessionTTL time.Duration

	// ArchiveTTL is how long dead letters are kept. Defaults to 90 days.
	ArchiveTTL time.Duration

	// LeftAlone is called with the name of a queue that begins as a session's does, but
	// names none: a plain asynq.Client takes any name. What is in it is not run. It is
	// called once for each of the first 1,000 names, from several goroutines. Nil: nobody
	// is told.
	SkippedQueue func(queue string)

	// ListIdle keeps every session on asynqmon's list that was not forgotten. Without
	// it the list has those with something to look at, see Unregister. All workers
	// should be of one mind.
	ListIdle bool

	// RecoveryRate is how many late sessions are put to work in a second, by all
	// workers together: those of dead owners, those that became due while there was
	// no worker, and those that nobody had announced. Defaults to 50.
	RecoveryRate float64
}

// CrashPolicy says what becomes of a session whose worker died in mid-turn.
type CrashPolicy string

// The crash policies.
const (
	CrashResume  CrashPolicy = "resume"  // the turn is run again in the same transcript, with a note
	CrashSuspend CrashPolicy = "suspend" // the turn is run again in a fresh one
)

func (c Config) withDefaults() Config {
	setDefault(&c.SentinelTTL, 15*time.Second)
	c.Line = c.Line.Over(session.DefaultQueueSettings())
	setDefault(&c.StuckLimit, 3)
	setDefault(&c.CrashPolicy, CrashResume)
	c.Limits = c.Limits.WithDefaults()
	setDefault(&c.LineCap, DefaultLineCap)
	setDefault(&c.TurnMessages, 500)
	setDefault(&c.TurnBytes, 4<<20)
	setDefault(&c.EventsCap, 1000)
	setDefault(&c.EventsBytes, 8<<20)
	setDefault(&c.TranscriptCap, 2000)
	setDefault(&c.TranscriptBytes, 64<<20)
	setDefault(&c.HistoryBytes, 16<<20)
	setDefault(&c.TranscriptTTL, 30*24*time.Hour)
	setDefault(&c.SessionTTL, 30*24*time.Hour)
	setDefault(&c.ArchiveTTL, 90*24*time.Hour)
	setDefault(&c.RecoveryRate, 50)
	return c
}

// DefaultLineCap is the default of LineCap, for senders and workers.
const DefaultLineCap = 10_000

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// inFlight is how many requests the moves of all claims have in flight before further
// ones share a round trip. So many keep Redis busy while replies travel, and the batches
// large.
const inFlight = 3

// Consumer takes messages out of the sessions' queues, for one worker. Its
// methods may be called concurrently.
type Consumer struct {
	Walker // and the Redis that all moves go to
	cfg    Config
	moves  *script.Batcher // of all holds
	events []any           // limits of the event stream, as scripts take them

	claimShared, finishShared []any // what the fast paths' calls have in common

	unheardMu  sync.Mutex
	unheard    []*Claim // claims of which no reply came
	unclaiming bool     // a TakeBack is at work
}

// NewConsumer makes a consumer that shares rdb, which stays the caller's to close.
// It does not connect.
func NewConsumer(rdb redis.UniversalClient, cfg Config) (*Consumer, error) {
	if cfg.Worker == "" {
		return nil, errors.New("sessionqueue: Config.Worker is empty")
	}
	cfg = cfg.withDefaults()
	consumer := &Consumer{Walker: Walker{rdb: rdb}, cfg: cfg, moves: script.NewBatcher(rdb, inFlight)}
	if cfg.SkippedQueue != nil {
		consumer.skipped = once(maxSkipped, func(name string) { cfg.SkippedQueue(rediskey.Queue(name)) })
	}
	consumer.events = cfg.eventPairs()
	consumer.claimShared, consumer.finishShared = claimFast.args(consumer.claimPairs()...), finishFast.args(consumer.finishPairs()...)
	return consumer, nil
}

// eventBytes divides EventsBytes: short events, up to so many bytes each, are bounded by
// their number, which Redis exceeds by less than eventsOver, and have a quarter of it at
// most. The large ones are counted, and have the rest.
func (c Config) eventBytes() (short, large int) {
	const eventsOver = 100
	n := c.EventsCap + eventsOver
	short = min(2048, c.EventsBytes/4/n)
	return short, c.EventsBytes - short*n
}

// Grace is how long a session that was woken may go unclaimed.
func (c Config) Grace() time.Duration { return min(ClaimGrace, c.SentinelTTL) }

// LineMost is how many messages may wait in a line, and how many delayed ones, before the
// rest is archived. Senders stop at LineCap; what a turn requeues comes on top.
func (c Config) LineMost() int64 { return int64(c.LineCap + c.TurnMessages) }

// eventPairs are the limits of the event stream, as scripts take them.
func (c Config) eventPairs() []any {
	short, large := c.eventBytes()
	return []any{"events_cap", c.EventsCap, "short", short, "large_bytes", large}
}

// Config is the configuration with its defaults filled in.
func (c *Consumer) Config() Config { return c.cfg }

// Pop takes up to n sessions that can be claimed off the ready index. What is
// popped must be claimed or put back.
func (c *Consumer) Pop(ctx context.Context, n int) ([]string, error) {
	popped, err := c.rdb.ZPopMin(ctx, rediskey.Ready, int64(n)).Result()
	if err != nil {
		return nil, err
	}
	sessions := make([]string, len(popped))
	for i, z := range popped {
		sessions[i], _ = z.Member.(string)
	}
	return c.ValidNames(sessions), nil
}

// Await is Pop for one session that waits for it, up to block. It does not look at
// ctx while it waits: a pop that Redis has carried out must not be dropped.
func (c *Consumer) Await(ctx context.Context, block time.Duration) ([]string, error) {
	one, err := c.rdb.BZPopMin(ctx, block, rediskey.Ready).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	session, _ := one.Member.(string)
	return c.ValidNames([]string{session}), nil
}

// maxLeftAlone is of how many queues Config.LeftAlone is told.
const maxSkipped = 1000

// once calls f with each of the first names that it gets, once.
func once(most int, f func(name string)) func(name string) {
	var mu sync.Mutex
	told := map[string]bool{}
	return func(name string) {
		mu.Lock()
		known := told[name] || len(told) == most
		if !known {
			told[name] = true
		}
		mu.Unlock()
		if !known {
			f(name)
		}
	}
}

// PutBack returns popped sessions that this worker will not claim.
func (c *Consumer) PutBack(ctx context.Context, sessions []string) error {
	if len(sessions) == 0 {
		return nil
	}
	now, err := c.rdb.Time(ctx).Result()
	if err != nil {
		return err
	}
	ups := make([]WakeUp, len(sessions))
	for i, s := range sessions {
		ups[i].Session = s
	}
	return Wake(ctx, c.rdb, now.UnixMilli(), c.cfg.Grace(), ups...)
}

// OthersWait reports whether sessions wait for a free worker.
func (c *Consumer) OthersWait(ctx context.Context) (bool, error) {
	n, err := c.rdb.ZCard(ctx, rediskey.Ready).Result()
	return n > 0, err
}

// newSessionID names a transcript. It sorts by the time of its making.
func newSessionID() string {
	return time.Now().UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:10])
}

func (c *Consumer) phase() string {
	if c.cfg.Immediate {
		return session.PhaseRunning
	}
	return session.PhaseStarting
}
