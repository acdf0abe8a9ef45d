package protocol

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/protocol/stream"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// stoppedByUser is the error of a message that the user stopped, as lua/lib/stopped.lua has it.
const stoppedByUser = "stopped by user"

// Cancel ends one message. lua/cancel.lua.
type Cancel struct {
	Session string
	ID      string // the message's
	Running bool   // if it is part of a turn, end that turn
	Call    string // identifies this call, so that the script recognizes a repetition
	Until   int64  // ms; after that the call does nothing
	By      string // who does it, for the audit; "": unknown
	Limits  session.Limits
}

// Cancelled is the result of a Cancel. State is taken, ending, running, ended, unknown or late.
type Cancelled struct {
	State   string
	Outcome session.Outcome // if State is taken or ended
	Wake    bool            // the rest of the queue may be claimed sooner than the indexes say
	Now     int64           // ms, by Redis' clock
}

// Do makes the call.
func (c Cancel) Do(ctx context.Context, rdb script.Client) (Cancelled, error) {
	k := scripts.KeysOf(c.Session, "", time.Now())
	r, err := scripts.Cancel.Run(ctx, rdb, scripts.CancelKeys(k, k.Call(c.Call)), scripts.CancelArgs{
		Prefixes: scripts.PrefixesOf(c.Session), Stream: senderStream, Longest: TaskMost(c.Limits),
		ID: rediskey.TaskID(c.Session, c.ID), By: cutBy(c.By), TurnToo: c.Running, Deadline: c.Until,
	})
	if err != nil {
		return Cancelled{}, err
	}
	found := Cancelled{State: string(r.Status), Wake: r.Wake, Now: r.Now}
	switch r.Status {
	case scripts.Taken:
		found.Outcome = session.Outcome{Session: c.Session, ID: c.ID, Status: session.StatusStopped, Error: stoppedByUser}
	case scripts.Ended:
		found.Outcome = stream.StoredOutcome(c.Session, c.ID, r.State, r.Result)
	}
	return found, nil
}

// Index wakes the session, or lists it as one that needs attention, as the result demands. The message was cancelled
// even if this fails: the due index or the sweep has the session.
func (c Cancel) Index(ctx context.Context, rdb redis.UniversalClient, found Cancelled) {
	if found.State == "taken" {
		_ = index.NeedAttention(ctx, rdb, found.Now, c.Session)
	}
	if found.Wake {
		_ = index.ListAndWake(ctx, rdb, c.Session, found.Now, 0)
	}
}

const (
	searchFor   = time.Second      // for how long only one worker searches for a task
	searchValid = 10 * time.Second // after that the cancel does nothing
)

// CancelWaiting ends the turn that a task is part of, unless somebody owns the session: the owner has heard of the
// task, too. asynqmon's Cancel names no session, so one worker searches asynq's list of queues for it: each session
// with an active task is there, also one that no index has because its queue is paused. A task that waits for its
// turn is left alone.
func (c *Consumer) CancelWaiting(ctx context.Context, taskID string) error {
	hash, id, _ := strings.Cut(taskID, "-")
	if session.ValidateID(id) != nil {
		return nil //nolint:nilerr // another program's task
	}
	if ok, err := c.Alone().Take(ctx, "cancel:"+taskID, searchFor); !ok {
		return err
	}
	return c.EachQueue(ctx, func(sessions []string) (err error) {
		for _, s := range sessions {
			if rediskey.IDPrefix(s) == hash+"-" { // several keys may have this hash
				err = errors.Join(err, c.cancelWaiting(ctx, s, id))
			}
		}
		return err
	})
}

func (c *Consumer) cancelWaiting(ctx context.Context, sessionKey, id string) error {
	state, err := c.rdb.HGet(ctx, rediskey.For(sessionKey).Task(rediskey.TaskID(sessionKey, id)), "state").Result()
	if state != "active" {
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		return err
	}
	look := Look(ctx, c.rdb, []string{sessionKey})[0]
	if look.Err != nil || look.State == LookOwned {
		return look.Err
	}
	end := Cancel{Session: sessionKey, ID: id, Running: true, Call: rand.Text(), Until: look.Now + searchValid.Milliseconds(), Limits: c.cfg.Limits}
	found, err := end.Do(ctx, c.rdb)
	if err == nil {
		end.Index(ctx, c.rdb, found)
	}
	return err
}
