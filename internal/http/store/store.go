// Package store has the Redis calls of gateways and the board that turnstile.Client and admin.Client
// lack: tickets, temporary sessions, the events of all sessions, and the day's tokens.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/stream"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// Store makes the calls. It is safe for concurrent use and has nothing to close.
type Store struct {
	rdb      redis.UniversalClient
	catchUps chan struct{} // one element for each reader of all sessions that catches up
	logMost  int           // bytes of the log of all sessions

	mu  sync.Mutex
	log *allLog // nil: nobody reads all sessions
}

// New returns a store. It shares rdb, which the caller closes.
func New(rdb redis.UniversalClient) *Store {
	return &Store{rdb: rdb, catchUps: make(chan struct{}, catchUpsMost), logMost: logMost}
}

// DropResult deletes a message whose result is kept, with its text, and reports whether it was there. The transcript
// keeps what the message and its turn have said.
func (s *Store) DropResult(ctx context.Context, sessionKey, id string) (bool, error) {
	there, err := protocol.DiscardResult(ctx, s.rdb, sessionKey, rediskey.TaskID(sessionKey, id))
	if err != nil {
		return false, fmt.Errorf("drop the result of message %s of %s: %w", id, sessionKey, err)
	}
	return there, nil
}

// Created returns when a session's record was made, by Redis' clock. Zero: the session is unknown.
func (s *Store) Created(ctx context.Context, sessionKey string) (at time.Time, err error) {
	ms, err := s.rdb.HGet(ctx, rediskey.For(sessionKey).Record(), "created_at").Int64()
	switch {
	case errors.Is(err, redis.Nil):
		return at, nil
	case err != nil:
		return at, fmt.Errorf("read session %s: %w", sessionKey, err)
	}
	return time.UnixMilli(ms), nil
}

// LastMessage returns the ID of the message that a session's next one directly follows, as turnstile.Message's After
// means it. "": there is none, because the conversation was begun anew or its last turn undone.
func (s *Store) LastMessage(ctx context.Context, sessionKey string) (string, error) {
	k, prefix := rediskey.For(sessionKey), rediskey.IDPrefix(sessionKey)
	var pending *redis.StringSliceCmd
	var run, record *redis.SliceCmd
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		pending = p.LRange(ctx, k.Pending(), 0, 0)
		run, record = p.HMGet(ctx, k.Run(), "ids", "sid", "fence"), p.HMGet(ctx, k.Record(), "session_id", "undone")
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("read the last message of %s: %w", sessionKey, err)
	}
	if waiting := pending.Val(); len(waiting) > 0 {
		return protocol.MessageID(prefix, waiting[0]), nil
	}
	last, talk := script.HashFields(run), script.HashFields(record)
	var ids []string
	_ = json.Unmarshal([]byte(last.Text("ids")), &ids) // a list that cannot be read counts as empty
	_, undone, _ := strings.Cut(talk.Text("undone"), " ")
	undone, _, _ = strings.Cut(undone, " ")
	if len(ids) == 0 || last.Text("sid") != talk.Text("session_id") || undone == prefix+last.Text("fence") {
		return "", nil
	}
	return protocol.MessageID(prefix, ids[len(ids)-1]), nil
}

// TokensToday returns the input and output tokens that the agents of all workers have reported today, in
// UTC by Redis' clock. It is nil if there are none, or if the Redis user may not read them. Each worker
// writes its count once a second, so a killed worker's last tokens are missing.
func (s *Store) TokensToday(ctx context.Context) (*session.Usage, error) {
	now, err := s.rdb.Time(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("read the day's tokens: %w", err)
	}
	read := s.rdb.HMGet(ctx, rediskey.Tokens(now), "input", "output")
	switch err := read.Err(); {
	case redis.HasErrorPrefix(err, "NOPERM"):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the day's tokens: %w", err)
	}
	stored := script.HashFields(read)
	used := session.Usage{InputTokens: stored.Int("input"), OutputTokens: stored.Int("output")}
	if used == (session.Usage{}) {
		return nil, nil
	}
	return &used, nil
}

// LastEventID returns the ID of a session's last event, "" if there is none. The error wraps
// session.ErrInvalid if the key is wrong.
func (s *Store) LastEventID(ctx context.Context, sessionKey string) (string, error) {
	return stream.LastEventID(ctx, s.rdb, sessionKey)
}

// LastEventIDAt is LastEventID as it was at a time of Redis' clock in ms, as far as the stream still has
// the events of that time.
func (s *Store) LastEventIDAt(ctx context.Context, sessionKey string, ms int64) (string, error) {
	return stream.LastEventIDAt(ctx, s.rdb, sessionKey, ms)
}
