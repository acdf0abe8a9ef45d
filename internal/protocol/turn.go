package protocol

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

// ClaimedTurn is one run of an agent: its messages and its fencing token.
type ClaimedTurn struct {
	Session      string
	Agent        string // the name of the session's agent
	TranscriptID string // the transcript that this turn's entries go to
	ID           string
	Fence        int64

	// Taken is the turn's first message, Collected are the messages collected with it.
	Taken
	Collected []Taken

	Attempt int   // from 1; a failure raises it
	Entries int64 // entries written to this transcript before, plus one for each undo, see docs/internals/keys.md

	Reset     string  // "suspended" if the transcript is new because of a suspension
	Ends      error   // not nil: the turn was begun only to be ended, for this request or as GivenUpError, and no agent runs
	Carries   Carries // from earlier runs
	Continues string  // the ID of the first run that it goes on from; "": it begins anew
	Keeps     int     // how many items of that run's output, and of those after it, stand
	Throttled int     // how often its runs have waited for a provider
	Resume    string  // the reason of the resume mark that the claim found, if any

	// Dropped are the task IDs of messages that were dropped from a full queue and that the turn's
	// note names: the newest, at most 50. Omitted counts the older ones.
	Dropped []string
	Omitted int
	notes   notes

	// Started is when the turn was claimed, by the worker's monotonic clock; StartedAt by Redis'
	// clock.
	Started   time.Time
	StartedAt time.Time
}

// Carries is what a turn carries on from its earlier runs.
type Carries string

// What a turn may carry. "": nothing.
const (
	CarriesEntries Carries = "entries" // its journal has entries alone
	CarriesSteps   Carries = "steps"   // its journal has steps, too
)

// GivenUpError is why a turn is ended after too many deaths of its workers.
type GivenUpError string

func (g GivenUpError) Error() string { return string(g) }

// endsOf returns the Ends of a claim's result.
func endsOf(why string) error {
	switch why {
	case "":
		return nil
	case "stop", "interrupt", "rollback":
		return requested(why)
	}
	return GivenUpError(why)
}

// Taken is a message that is part of a turn.
type Taken struct {
	// Message is the user's message. Err says why it cannot be read, for example because it is
	// another program's task.
	Message wire.Message
	Err     error

	Redelivered int           // how often it was begun again without a failure, after crashes and drains
	Age         time.Duration // since it was first seen
	Steer       bool          // it came to be steered into a running turn: see Starters

	taskID   string
	retried  int
	fastTask string // see part.task
}

// First reports whether the message was in no turn before: it is neither retried nor redelivered.
func (t Taken) First() bool { return t.retried == 0 && t.Redelivered == 0 }

// fastTaskMost is the largest task, in bytes, that finish's fast path sends back, so that the
// script need not read it.
const fastTaskMost = 16 << 10

// Messages are the messages that the turn was claimed for.
func (t ClaimedTurn) Messages() []Taken { return append([]Taken{t.Taken}, t.Collected...) }

// Starters are the messages that the turn's first run began with. The others, the last, were steered in.
func (t ClaimedTurn) Starters() []Taken {
	all, n := t.Messages(), 1 // the first may have found no turn to join
	for n < len(all) && !all[n].Steer {
		n++
	}
	return all[:n]
}

// take decodes a message from a script's result.
func take(prefix string, m scripts.Message, limits session.Limits) Taken {
	t := Taken{taskID: m.ID, Age: max(m.Age, 0), Redelivered: int(m.Redelivered), Steer: m.Steer}
	if len(m.Msg) <= fastTaskMost && !m.Unique {
		t.fastTask = m.Msg
	}
	task, err := ParseTaskMessage([]byte(m.Msg))
	if err == nil {
		t.Message, err = task.Message(limits)
	}
	t.Message.ID = MessageID(prefix, t.taskID)
	t.Err, t.retried = err, task.retried
	return t
}

// Before returns the ID of the session's last turn before the running one, "" if it is unknown. It is for traces: the
// turn may be of other messages, if an interrupt came between.
func (c *Claim) Before(ctx context.Context) string {
	k, turn := rediskey.For(c.session), c.Turn()
	var last, interrupted *redis.StringCmd
	_, _ = c.consumer.rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // a missing field is an error, too
		last, interrupted = p.HGet(ctx, k.Run(), "last"), p.HGet(ctx, k.Resume(), "fence")
		return nil
	})
	texts := append(strings.Fields(last.Val()), "", "")[1:2] // "token fence word"
	var latest int64
	for _, text := range append(texts, interrupted.Val()) {
		if fence, err := strconv.ParseInt(text, 10, 64); err == nil && fence < turn.Fence {
			latest = max(latest, fence)
		}
	}
	if latest <= 0 {
		return ""
	}
	return c.prefix + strconv.FormatInt(latest, 10)
}
