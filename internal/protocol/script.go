package protocol

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/combine"
	"turnstile/internal/redisconn"
	"turnstile/internal/rediskey"
	"turnstile/internal/script"
)

//go:embed lua/*.lua
var sources embed.FS

// The scripts, one for each move. Each file's header specifies KEYS, ARGV and
// answer.
var (
	ringScript      = move("session", "events", "archive", "notes", "call", "ring")
	stopScript      = move("session", "events", "archive", "notes", "stopped", "call", "stop")
	rotateScript    = move("session", "notes", "rotate")
	titleScript     = move("session", "title")
	configureScript = move("session", "configure")
	undoScript      = move("session", "call", "undo")
	rerunScript     = move("session", "archive", "call", "rerun")
	discardScript   = move("session", "discard")
	eraseScript     = move("session", "erase")
	answerScript    = move("session", "answer")

	claimPlainScript  = load("claim_plain")
	finishPlainScript = load("events", "transcript", "finish_plain")

	claimScript      = move("session", "events", "lease", "line", "archive", "stopped", "cut", "notes", "claim")
	unclaimScript    = move("session", "cut", "unclaim")
	promoteScript    = move("session", "owner", "asked", "promote")
	renewScript      = move("session", "lease", "owner", "asked", "renew")
	emitScript       = move("session", "events", "owner", "emit")
	checkpointScript = move("session", "owner", "checkpoint")
	keepScript       = move("session", "owner", "keep")
	askScript        = move("session", "owner", "ask")
	steerScript      = move("session", "line", "owner", "asked", "steer")
	dismissScript    = move("session", "events", "archive", "owner", "dismiss")
	finishScript     = move("session", "events", "transcript", "line", "untaken", "owner", "notes", "finish")
	failScript       = move("session", "events", "transcript", "line", "untaken", "archive", "stopped", "owner", "notes", "finish")
	markScript       = move("session", "owner", "asked", "cut", "mark")
	requeueScript    = move("session", "events", "archive", "owner", "asked", "cut", "requeue")

	trimScript   = move("session", "events", "archive", "trim")
	lookScript   = move("session", "lease", "look")
	purgeScript  = move("session", "purge")
	forgetScript = move("session", "forget")

	admitScript      = load("admit")
	pastScript       = load("past")
	eventsPageScript = load("events_page")
	indexDueScript   = load("index_due")
	RescoreScript    = load("rescore")
	lookAfterScript  = load("look_after")
)

// ScriptName tells which move a script's SHA-1 stands for, as MONITOR and SLOWLOG
// show it: "claim", "finish". It is "" for a script of somebody else.
func ScriptName(sha string) string {
	s, _ := script.BySHA(sha)
	return strings.TrimSuffix(s.Name, "_plain")
}

// move is a script of a session.
func move(names ...string) func() *redis.Script {
	return load(append([]string{"keys"}, names...)...)
}

func load(names ...string) func() *redis.Script {
	return script.New(names[len(names)-1], func() string {
		var src strings.Builder
		src.WriteString(script.Prelude())
		for _, name := range names {
			text, err := sources.ReadFile("lua/" + name + ".lua")
			if err != nil {
				panic(err) // the file is embedded: a misspelt name, seen by the first test
			}
			src.WriteByte('\n')
			src.Write(text)
		}
		return src.String()
	}).Redis
}

// transcriptKey is the index of the transcript's key, the only one that changes
// while a session is owned.
const transcriptKey = 6

// processedDayKey is the index of a counter whose key has the day in it.
const processedDayKey = 16

// How many of a session's keys a script gets that does not touch the rest: Redis
// makes a Lua string of each.
const (
	keysToEvents    = 6  // sentinel, run, record, follow-ups, resume, events
	keysToLease     = 11 // and transcript, partial, pending, active, lease
	keysToProcessed = 17 // and all but the archive, its statistics and what a /stop put aside
	allKeys         = 21
)

// Keys are the KEYS of every script of a session, in the order of
// lua/session.lua.
func Keys(session, sessionID string, now time.Time) []string {
	k := rediskey.For(session)
	day := now.UTC().Format(":2006-01-02") // asynq's daily counters
	return []string{
		k.Sentinel(), k.Run(), k.Record(), k.Followups(), k.Resume(), k.Events(), k.Transcript(sessionID), k.Partial(),
		k.Pending(), k.Active(), k.Lease(), k.Paused(), k.Scheduled(), k.Retry(), k.Completed(),
		k.Processed(), k.Processed() + day, k.Archived(), k.Failed(), k.Failed() + day, k.Stopped(),
	}
}

// Result is what a script replied.
type Result []any

// Str is the text at place i; "": there is none.
func (a Result) Str(i int) string {
	if i < len(a) {
		if s, ok := a[i].(string); ok {
			return s
		}
	}
	return ""
}

func (a Result) int(i int) int64 {
	if i < len(a) {
		if n, ok := a[i].(int64); ok {
			return n
		}
	}
	return 0
}

func (a Result) list(i int) Result {
	if i < len(a) {
		if l, ok := a[i].([]any); ok {
			return l
		}
	}
	return nil
}

func (a Result) ms(i int) time.Duration { return time.Duration(a.int(i)) * time.Millisecond }

// run calls a script once; go-redis itself repeats a call whose reply was lost.
func run(ctx context.Context, rdb redis.Scripter, s *redis.Script, keys []string, args ...any) (Result, error) {
	reply, err := s.Run(ctx, rdb, keys, args...).Slice()
	if err != nil {
		return nil, err
	}
	return reply, nil
}

// reply is one answer of a pipeline, or its error.
type reply struct {
	Result
	err error
}

// pipeline runs a script for n sessions in one round trip. Each call is atomic,
// the pipeline is not.
func pipeline(ctx context.Context, rdb redis.UniversalClient, s *redis.Script, n int, call func(i int) ([]string, []any)) []reply {
	cmds := make([]*redis.Cmd, n)
	// The error of the whole is also that of the commands it befell.
	_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range cmds {
			keys, args := call(i)
			cmds[i] = s.EvalSha(ctx, p, keys, args...)
		}
		return nil
	})
	replies := make([]reply, n)
	for i, cmd := range cmds {
		a, err := cmd.Slice()
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			keys, args := call(i)
			a, err = s.Eval(ctx, rdb, keys, args...).Slice()
		}
		replies[i] = reply{a, err}
	}
	return replies
}

// call runs a script for one of the holds, together with others' calls.
func (c *Consumer) call(ctx context.Context, s *redis.Script, keys []string, args []any) (Result, error) {
	cmd := combine.EvalSha(ctx, s, keys, args)
	c.moves.Process(ctx, cmd)
	a, err := cmd.Slice()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		a, err = s.Eval(ctx, c.rdb, keys, args...).Slice()
	}
	return a, err
}

// Persist repeats call, with a growing pause, while its error may pass and ctx
// lasts: an owner has until the end of its lease.
func Persist(ctx context.Context, call func() error) error {
	pause := 10 * time.Millisecond
	for {
		err := call()
		if err == nil || !redisconn.MayPass(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last error: %w)", context.Cause(ctx), err)
		case <-time.After(pause):
		}
		pause = min(2*pause, 500*time.Millisecond)
	}
}
