package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// State says in one word what a session does.
type State string

// The states of a session.
const (
	StateStarting  State = "starting"  // a turn was claimed, its agent does not run yet
	StateRunning   State = "running"   // a turn runs
	StateAsking    State = "asking"    // a turn runs, and its agent's question waits for a decision
	StatePaused    State = "paused"    // an operator has paused it: it is not claimed
	StateWaiting   State = "waiting"   // messages wait for a free slot of a worker
	StateDelayed   State = "delayed"   // messages wait for a time: delayed, retried or collected
	StateSuspended State = "suspended" // nothing runs or waits; the next message begins a new transcript
	StateIdle      State = "idle"      // nothing runs or waits
)

// SessionState is a session with its state.
type SessionState struct {
	session.Info
	State      State
	Paused     bool      // an operator has paused it
	Suspended  bool      // its next message begins a new transcript
	LastActive time.Time // zero if unknown
}

// States returns the states of sessions, in the order of infos. It reads the indexes, which the
// Redis user of a sender may not.
func (a *Client) States(ctx context.Context, infos []session.Info) ([]SessionState, error) {
	if len(infos) == 0 {
		return nil, nil
	}
	keys := make([]string, len(infos))
	for i, s := range infos {
		keys[i] = s.Session
	}
	var ready, due, active *redis.FloatSliceCmd
	paused, suspended := make([]*redis.IntCmd, len(keys)), make([]*redis.StringCmd, len(keys))
	_, err := a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		ready, due = p.ZMScore(ctx, rediskey.Ready, keys...), p.ZMScore(ctx, rediskey.Due, keys...)
		active = p.ZMScore(ctx, rediskey.Sessions, keys...)
		for i, key := range keys {
			k := rediskey.For(key)
			paused[i], suspended[i] = p.Exists(ctx, k.Paused()), p.HGet(ctx, k.Resume(), "suspended")
		}
		return nil
	})
	if err != nil && err != redis.Nil { //nolint:errorlint // the pipeline returns the Nil of a missing field as it is
		return nil, fmt.Errorf("read what sessions do: %w", err)
	}
	list := make([]SessionState, len(infos))
	for i, info := range infos {
		s := SessionState{Info: info, Paused: paused[i].Val() > 0, Suspended: suspended[i].Val() == "1"}
		if at := int64(active.Val()[i]); at > 0 {
			s.LastActive = time.UnixMilli(at)
		}
		s.State = s.state(ready.Val()[i] > 0, due.Val()[i] > 0)
		list[i] = s
	}
	return list, nil
}

// state returns the state, given whether the session is in the ready and the due index.
func (s SessionState) state(ready, due bool) State {
	switch {
	case s.Phase == session.PhaseStarting:
		return StateStarting
	case s.Phase != session.PhaseIdle && s.Question != nil:
		return StateAsking
	case s.Phase != session.PhaseIdle:
		return StateRunning
	case s.Paused:
		return StatePaused
	case s.Pending+s.Scheduled > 0 && ready, s.Pending > 0 && !due:
		return StateWaiting
	case s.Pending+s.Scheduled > 0:
		return StateDelayed
	case s.Suspended:
		return StateSuspended
	}
	return StateIdle
}
