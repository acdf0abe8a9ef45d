package protocol

import (
	"embed"
	"strings"
	"time"

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
func move(names ...string) *script.Script {
	return load(append([]string{"keys"}, names...)...)
}

func load(names ...string) *script.Script {
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
	})
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
