package protocol

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/agents"
	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/protocol/stream"
	"turnstile/internal/protocol/tenants"
	"turnstile/internal/protocol/wire"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// Config are the rules by which a Consumer owns sessions. A zero field means its default.
type Config struct {
	// Worker is the owner's name in run records, and the name of its signal channel. Required.
	Worker string

	// SentinelTTL is the lease: how long a sentinel lives without renewal. Defaults to 15 s.
	SentinelTTL time.Duration

	// Agent is the name of the agent, which the heartbeat shows.
	Agent string

	// Agents are the names of all agents that the worker has. The heartbeat shows them. Defaults to
	// agents.Default alone.
	Agents []string

	// Instructable are those that take requests of clients for the model.
	Instructable []string

	// AgentOf returns the agent of a session that has none yet. Defaults to agents.Default for all.
	AgentOf func(sessionKey string) string

	// Serves returns those of Agents that the worker may run now. Defaults to all.
	Serves func() []string

	// Covers reports whether an agent may run a session. Defaults to yes.
	Covers func(agent, sessionKey string) bool

	// Elsewhere returns the agents that other living workers run, and false as long as that is not
	// known. Defaults to unknown.
	Elsewhere func() (names []string, known bool)

	// Tenants returns the table by which sessions are sorted. Defaults to none: first come, first served.
	Tenants func() *tenants.Table

	// Unserved is called with the agent of a session that was not claimed, because this worker does
	// not run it. missing: no living worker does. again: others may take it at once, and not after
	// unservedPause. Defaults to none.
	Unserved func(sessionKey, agent string, missing bool) (again bool)

	// Age returns for how long the worker has run. A drain by a worker that is older than the session's last
	// counted drain is not counted. Defaults to 0.
	Age func() time.Duration

	// Programs says that the agent may run programs on this machine. The heartbeat says so, too.
	Programs bool

	// Immediate claims turns in the phase running: the agent has no phase starting.
	Immediate bool

	// Warm says that the worker keeps warm agents: messages for their sessions are offered to it
	// first.
	Warm bool

	// Line are the queue settings of a session without its own. Defaults to
	// wire.DefaultQueueSettings.
	Line session.QueueSettings

	// StuckLimit is how many interruptions in a row, without a finished turn between them, suspend
	// the session. If the last one was a worker's death, the message becomes a dead letter as well.
	// Defaults to 3.
	StuckLimit int

	// CrashPolicy is how a turn continues after its worker died. Defaults to CrashResume.
	CrashPolicy CrashPolicy

	// Limits bound one message and a session's queue. A message beyond them becomes a dead letter,
	// with the reason. Senders refuse more than Queue. Trim archives the newest messages of other
	// producers above Queue plus TurnMessages: a turn may have returned so many.
	Limits session.Limits

	// TurnMessages is the most messages of a turn, collected and steered in. The rest waits for the
	// next turn. Defaults to 500.
	TurnMessages int

	// TurnBytes is the most bytes of a turn's messages, as their tasks are stored. One message may
	// be longer. Defaults to 4 MiB.
	TurnBytes int

	// Retention is how long the result of an ended message is kept, in whole seconds. 0 keeps none.
	Retention time.Duration

	// EventsCap is about how many events a session's stream keeps. Defaults to 1,000, and to more in
	// proportion if EventsBytes is above its default.
	EventsCap int

	// EventsBytes is the most bytes of a stream's events; the oldest go first. A longer event stays
	// until the next one. Defaults to 8 MiB.
	EventsBytes int

	// TranscriptCap is the most entries of a transcript; the oldest go first. Defaults to 2,000, and to
	// more in proportion if TranscriptBytes is above its default.
	TranscriptCap int

	// TranscriptBytes is the most of Redis' memory that a transcript takes; the oldest entries go
	// first. One entry has at most a sixteenth of it, or the maximum of a message if that is more.
	// Defaults to 64 MiB.
	TranscriptBytes int

	// HistoryBytes is the most bytes of stored transcript that a turn gets: its newest turns, see
	// History. Defaults to 16 MiB.
	HistoryBytes int

	// TranscriptTTL and SessionTTL are how long a transcript and a session's record outlive their
	// last use. Default to 30 days.
	TranscriptTTL, SessionTTL time.Duration

	// ArchiveTTL is how long dead letters are kept. Defaults to 90 days.
	ArchiveTTL time.Duration

	// SkippedQueue is called with the name of a queue that begins as a session's does, but is not
	// valid: an asynq.Client takes any name. Nothing in such a queue runs. It is called once for
	// each of the first 1,000 names, from several goroutines. Defaults to none.
	SkippedQueue func(queue string)

	// RecoveryRate is how many sessions all workers together recover in a second: after an owner's
	// death, if due while no worker ran, or after a lost wake-up. Defaults to
	// 50.
	RecoveryRate float64
}

// CrashPolicy is how a session continues after its worker died during a turn.
type CrashPolicy string

// The crash policies.
const (
	CrashResume  CrashPolicy = "resume"  // run the turn again in the same transcript, with a note
	CrashSuspend CrashPolicy = "suspend" // run the turn again in a new transcript
)

func (c Config) withDefaults() Config {
	if c.AgentOf == nil {
		c.AgentOf = func(string) string { return agents.Default }
	}
	if len(c.Agents) == 0 {
		c.Agents = []string{agents.Default}
	}
	if c.Serves == nil {
		c.Serves = func() []string { return c.Agents }
	}
	if c.Covers == nil {
		c.Covers = func(string, string) bool { return true }
	}
	if c.Elsewhere == nil {
		c.Elsewhere = func() ([]string, bool) { return nil, false }
	}
	if c.Age == nil {
		c.Age = func() time.Duration { return 0 }
	}
	if c.Tenants == nil {
		c.Tenants = func() *tenants.Table { return nil }
	}
	if c.Unserved == nil {
		c.Unserved = func(string, string, bool) bool { return false }
	}
	c.SentinelTTL = cmp.Or(c.SentinelTTL, 15*time.Second)
	c.Line = wire.Over(c.Line, wire.DefaultQueueSettings())
	c.StuckLimit = cmp.Or(c.StuckLimit, 3)
	c.CrashPolicy = cmp.Or(c.CrashPolicy, CrashResume)
	c.Limits = c.Limits.WithDefaults()
	c.TurnMessages = cmp.Or(c.TurnMessages, 500)
	c.TurnBytes = cmp.Or(c.TurnBytes, 4<<20)
	c.EventsBytes = cmp.Or(c.EventsBytes, 8<<20)
	c.EventsCap = cmp.Or(c.EventsCap, max(1000, c.EventsBytes/(8<<20/1000)))
	c.TranscriptBytes = cmp.Or(c.TranscriptBytes, 64<<20)
	c.TranscriptCap = cmp.Or(c.TranscriptCap, max(2000, c.TranscriptBytes/(64<<20/2000)))
	c.HistoryBytes = cmp.Or(c.HistoryBytes, 16<<20)
	c.TranscriptTTL = cmp.Or(c.TranscriptTTL, 30*24*time.Hour)
	c.SessionTTL = cmp.Or(c.SessionTTL, 30*24*time.Hour)
	c.ArchiveTTL = cmp.Or(c.ArchiveTTL, 90*24*time.Hour)
	c.RecoveryRate = cmp.Or(c.RecoveryRate, 50)
	return c
}

// DefaultIdempotencyTTL is the default of Accept.IdempotencyTTL.
const DefaultIdempotencyTTL = 24 * time.Hour

// inFlight is how many requests of all claims are in flight before further ones share a round trip.
// Three keep Redis busy while replies travel, and the batches large.
const inFlight = 3

// Consumer claims sessions for one worker. It is safe for concurrent use.
type Consumer struct {
	index.Walker
	rdb     redis.UniversalClient // of all moves
	cfg     Config
	moves   *script.Batcher // of all claims
	readers *stream.Readers
	stream  scripts.Stream

	claimShared, finishShared []any // arguments that all calls of a fast path share

	holds holds

	replyLostMu sync.Mutex
	replyLost   []*Claim // claims with a lost reply
	unclaiming  bool     // an Unclaim is at work
}

// NewConsumer returns a consumer that shares rdb, which the caller closes. It does not connect.
func NewConsumer(rdb redis.UniversalClient, cfg Config) (*Consumer, error) {
	if cfg.Worker == "" {
		return nil, errors.New("make a consumer: Config.Worker is empty")
	}
	cfg = cfg.withDefaults()
	consumer := &Consumer{Walker: index.NewWalker(rdb), rdb: rdb, cfg: cfg, moves: script.NewBatcher(rdb, inFlight), readers: stream.NewReaders(), holds: holds{tokens: map[string]string{}, agents: map[string]bool{}}}
	if cfg.SkippedQueue != nil {
		consumer.Skipped = once(maxSkipped, func(name string) { cfg.SkippedQueue(rediskey.Queue(name)) })
	}
	consumer.stream = cfg.stream()
	consumer.claimShared, consumer.finishShared = consumer.claimSettings().Words(), consumer.finishSettings().Words()
	return consumer, nil
}

// eventBytes divides EventsBytes. Short events, of up to short bytes each, are bounded by their
// number, which Redis exceeds by less than eventsOver. They get at most a quarter. Longer events
// get the rest; the scripts count their bytes.
func (c Config) eventBytes() (short, large int) {
	const eventsOver = 100
	n := c.EventsCap + eventsOver
	short = min(2048, c.EventsBytes/4/n)
	return short, c.EventsBytes - short*n
}

// Grace is how long a session that was woken may go unclaimed.
func (c Config) Grace() time.Duration { return min(index.ClaimGrace, c.SentinelTTL) }

// LineMost is how many messages may wait in a queue, and how many delayed ones, before the rest is
// archived. Senders stop at Limits.Queue. A turn may return TurnMessages above it.
func (c Config) LineMost() int64 { return int64(c.Limits.Queue + c.TurnMessages) }

// stream returns the limits of the event stream, as scripts read them.
func (c Config) stream() scripts.Stream {
	short, large := c.eventBytes()
	return scripts.Stream{EventsCap: int64(c.EventsCap), Short: int64(short), LargeBytes: int64(large)}
}

// ttl is the sentinel's, in ms.
func (c *Consumer) ttl() int64 { return c.cfg.SentinelTTL.Milliseconds() }

// Config returns the configuration with its defaults filled in.
func (c *Consumer) Config() Config { return c.cfg }

// Pop takes up to n sessions that are to be claimed. The caller must claim them or put them back, and Leave those that it
// does not run.
func (c *Consumer) Pop(ctx context.Context, n int) ([]string, error) {
	if table := c.cfg.Tenants(); table != nil {
		return c.dispatch(ctx, table, pick{most: n})
	}
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

// Await is Pop for one session, and waits for it up to block. It ignores ctx while it waits:
// otherwise a popped session may get lost.
func (c *Consumer) Await(ctx context.Context, block time.Duration) ([]string, error) {
	if table := c.cfg.Tenants(); table != nil {
		return c.awaitDispatch(ctx, table, block)
	}
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

// maxSkipped is for how many queues Config.SkippedQueue is called.
const maxSkipped = 1000

// once returns a function that calls f once with each of the first most names.
func once(most int, f func(name string)) func(name string) {
	var mu sync.Mutex
	seen := map[string]bool{}
	return func(name string) {
		mu.Lock()
		known := seen[name] || len(seen) == most
		if !known {
			seen[name] = true
		}
		mu.Unlock()
		if !known {
			f(name)
		}
	}
}

// PutBack returns popped sessions to the ready index, and what they hold of limits. Its error is a NotWokenError.
func (c *Consumer) PutBack(ctx context.Context, sessions []string) error {
	if len(sessions) == 0 {
		return nil
	}
	_ = c.Leave(ctx, sessions...) // else the holds end with their leases
	now, err := c.rdb.Time(ctx).Result()
	if err == nil {
		ups := make([]index.WakeUp, len(sessions))
		for i, s := range sessions {
			ups[i].Session = s
		}
		err = index.Wake(ctx, c.rdb, now.UnixMilli(), c.cfg.Grace(), ups...)
	}
	if err != nil {
		return &NotWokenError{sessions, err}
	}
	return nil
}

// newTranscriptID returns a new transcript ID. IDs sort by time.
func newTranscriptID() string {
	return time.Now().UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:10])
}

func (c *Consumer) phase() string {
	if c.cfg.Immediate {
		return string(session.PhaseRunning)
	}
	return string(session.PhaseStarting)
}
