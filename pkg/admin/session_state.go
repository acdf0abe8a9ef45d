package admin

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/record"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
)

// State is the state of a session.
type State string

// The states of a session.
const (
	StateStarting  State = "starting"  // a turn was claimed, its agent does not run yet
	StateRunning   State = "running"   // a turn runs
	StateAsking    State = "asking"    // a turn runs, and its agent's question waits for a decision
	StatePaused    State = "paused"    // paused by an operator: it is not claimed
	StateWaiting   State = "waiting"   // messages wait for a free slot of a worker
	StateDelayed   State = "delayed"   // messages wait for a time: delayed, retried or collected
	StateSuspended State = "suspended" // nothing runs or waits; the next message begins a new transcript
	StateIdle      State = "idle"      // nothing runs or waits
	StateBroken    State = "broken"    // a key has a wrong type, see session.Info.Broken

	// Of a Query only.
	StateBusy        State = "busy"         // a turn runs, or messages wait
	StateDeadLetters State = "dead_letters" // it has some
	StateUndelivered State = "undelivered"  // it has deliveries
	StateAttention   State = "attention"    // it asks, is paused, suspended or broken, has dead letters or failed deliveries, or needs an agent that no worker runs
)

// SessionInfo is a session's state as an operator sees it.
type SessionInfo struct {
	session.Info

	State      State
	Paused     bool      // an operator has paused it
	Suspended  bool      // its next message begins a new transcript
	LastActive time.Time // zero if unknown

	Failing []FailingDestination // those that did not take the session's next delivery, by name
	GivenUp int                  // deliveries that were given up
}

// FailingDestination is a destination that has refused a session's next delivery, or could not be reached.
type FailingDestination struct {
	Destination string
	Count       int       // outcomes that the session owes it
	Since       time.Time // when the delivery was stored
	Error       string    // of the last attempt, "" while the next one is made
}

// Info returns the session's state. That of an unknown one is idle and empty. The error wraps session.ErrBroken if
// a key has a wrong type.
func (s *Session) Info(ctx context.Context) (SessionInfo, error) {
	if err := session.ValidateKey(s.key); err != nil {
		return SessionInfo{}, err
	}
	list, err := s.admin.infos(ctx, []string{s.key})
	if err == nil && list[0].Broken != "" {
		err = fmt.Errorf("%w: %s", session.ErrBroken, list[0].Broken)
	}
	if err != nil {
		return SessionInfo{}, fmt.Errorf("read session %s: %w", s.key, err)
	}
	return list[0], nil
}

// infos reads sessions in two round trips, and the deliveries of those that have some in a few more. It reads the
// indexes, which a sender's Redis user may not read.
func (a *Client) infos(ctx context.Context, keys []string) ([]SessionInfo, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	infos, err := record.Infos(ctx, a.rdb, keys)
	if err != nil {
		return nil, err
	}
	var ready, sorted, due, active *redis.FloatSliceCmd
	paused, stored, givenUp := make([]*redis.IntCmd, len(keys)), make([]*redis.IntCmd, len(keys)), make([]*redis.IntCmd, len(keys))
	cmds, err := a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		ready, due = p.ZMScore(ctx, rediskey.Ready, keys...), p.ZMScore(ctx, rediskey.Due, keys...)
		sorted, active = p.ZMScore(ctx, rediskey.Sorted, keys...), p.ZMScore(ctx, rediskey.Sessions, keys...)
		for i, key := range keys {
			k := rediskey.For(key)
			paused[i], stored[i], givenUp[i] = p.Exists(ctx, k.Paused()), p.ZCard(ctx, k.Outbox()), p.ZCard(ctx, k.Undelivered())
		}
		return nil
	})
	if err := cmp.Or(redisconn.Failure(cmds, err), ready.Err(), sorted.Err(), due.Err(), active.Err()); err != nil {
		return nil, err
	}
	var storing []int
	var names []string
	for i, n := range stored {
		if n.Val() > 0 {
			storing, names = append(storing, i), append(names, keys[i])
		}
	}
	failing, err := deliveries.ReadFailing(ctx, a.rdb, names)
	if err != nil {
		return nil, err
	}
	list := make([]SessionInfo, len(infos))
	for i, info := range infos {
		s := SessionInfo{Info: info, Paused: paused[i].Val() > 0, Suspended: info.Resume.Suspended, GivenUp: int(givenUp[i].Val())}
		if at := int64(active.Val()[i]); at > 0 {
			s.LastActive = time.UnixMilli(at)
		}
		s.State = s.state(ready.Val()[i]+sorted.Val()[i] > 0, due.Val()[i] > 0)
		list[i] = s
	}
	for n, i := range storing {
		for _, f := range failing[n] {
			list[i].Failing = append(list[i].Failing, FailingDestination(f))
		}
	}
	return list, nil
}

// state returns the state, given whether the session is in the ready and the due index.
func (s SessionInfo) state(ready, due bool) State {
	parked := s.Phase == session.PhaseParked // its messages wait, too
	waits := parked || s.Waiting+s.Delayed > 0
	switch {
	case s.Broken != "":
		return StateBroken
	case s.Phase == session.PhaseStarting:
		return StateStarting
	case s.Question != nil:
		return StateAsking
	case s.Phase == session.PhaseRunning:
		return StateRunning
	case s.Paused:
		return StatePaused
	case waits && ready, (parked || s.Waiting > 0) && !due:
		return StateWaiting
	case waits:
		return StateDelayed
	case s.Suspended:
		return StateSuspended
	}
	return StateIdle
}
