package protocol

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
)

// Once carries out a command with an ID at most once. Its record has the key of a message with that
// ID, so an ID is either a command's or a message's. The record is "hash nonce", with " result" at
// the end.
type Once struct {
	rdb  redis.UniversalClient
	key  string
	mark string
	life time.Duration
}

// NewOnce returns the Once of a session's command with that ID. call is the command with all its
// arguments.
func NewOnce(rdb redis.UniversalClient, sessionKey, id string, call []byte, life time.Duration) Once {
	hash := sha256.Sum256(append([]byte("command\n"), call...))
	return Once{rdb, rediskey.For(sessionKey).Idem(id), hex.EncodeToString(hash[:16]) + " " + rand.Text(), max(life, time.Millisecond)}
}

// Begin returns the result of the command if it was carried out before. If begun is true, carry it
// out and call End, or Free if nothing was changed.
//
// The error wraps session.ErrConflict if the ID has another record, and session.ErrExpired if the
// command was begun and has no result: another call carries it out now, or its program died. It
// wraps session.ErrUnchanged if this call stored no record.
func (o Once) Begin(ctx context.Context) (result string, begun bool, err error) {
	stored, err := o.step(ctx, "begin", "")
	if err != nil && !redisconn.Unchanged(err) {
		_ = o.Free(context.WithoutCancel(ctx)) // this call does not carry it out, so a repetition may
	}
	if err != nil {
		return "", false, Unchanged(err, false)
	}
	hash, _, _ := strings.Cut(o.mark, " ")
	parts := strings.SplitN(stored, " ", 3)
	switch {
	case stored == o.mark:
		return "", true, nil
	case parts[0] != hash:
		return "", false, session.ErrConflict
	case len(parts) < 3:
		return "", false, fmt.Errorf("%w: the command was begun under this id, and may have been carried out; look at the session", session.ErrExpired)
	}
	return parts[2], false, nil
}

// End stores the result.
func (o Once) End(ctx context.Context, result string) error {
	_, err := o.step(ctx, "end", result)
	return err
}

// Free forgets the ID.
func (o Once) Free(ctx context.Context) error {
	_, err := o.step(ctx, "free", "")
	return err
}

// step calls lua/once.lua.
func (o Once) step(ctx context.Context, step, result string) (stored string, err error) {
	r, err := scripts.Once.Run(ctx, o.rdb, []string{o.key}, scripts.OnceArgs{Step: step, Mark: o.mark, Outcome: result, Life: o.life.Milliseconds()})
	return r.Stored, err
}

// bodyLife is how long the last message of a body is remembered. A client's timeout is shorter.
const bodyLife = 24 * time.Hour

// Bodies remembers the last message of each body that was sent to a session more than once. By
// these the gateway recognizes a client's repeated request.
type Bodies struct{ rdb redis.UniversalClient }

// NewBodies returns Bodies that share rdb.
func NewBodies(rdb redis.UniversalClient) Bodies { return Bodies{rdb} }

// Last returns the ID of a body's last message, "" if there is none, and Redis' time.
func (b Bodies) Last(ctx context.Context, sessionKey, body string) (id string, now time.Time, err error) {
	at := b.rdb.Time(ctx)
	id, err = b.rdb.Get(ctx, rediskey.For(sessionKey).Call(body)).Result()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return id, at.Val(), errors.Join(err, at.Err())
}

// Now returns Redis' time.
func (b Bodies) Now(ctx context.Context) (time.Time, error) { return b.rdb.Time(ctx).Result() }

// Sent stores the ID of a body's last message.
func (b Bodies) Sent(ctx context.Context, sessionKey, body, id string) error {
	return b.rdb.Set(ctx, rediskey.For(sessionKey).Call(body), id, bodyLife).Err()
}
