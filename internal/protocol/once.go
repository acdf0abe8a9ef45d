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

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// Once carries out a command that a sender has given an id at most once. Its record stands where that
// of a message with the id would, so the id names one of them: "hash nonce", and " result" at the end.
type Once struct {
	rdb  redis.UniversalClient
	key  string
	mark string
	life time.Duration
}

// NewOnce is for the command with that id of a session. what is all that the sender wants.
func NewOnce(rdb redis.UniversalClient, sessionKey, id string, what []byte, life time.Duration) Once {
	hash := sha256.Sum256(append([]byte("command\n"), what...))
	return Once{rdb, rediskey.For(sessionKey).Idem(id), hex.EncodeToString(hash[:16]) + " " + rand.Text(), max(life, time.Millisecond)}
}

// Begin returns the result of the command if it was carried out before. Otherwise begun: carry it out
// and call End, or Free if nothing was changed.
//
// The error wraps session.ErrConflict if the id belongs to something else, and session.ErrExpired if
// the command was begun and has no result: another call carries it out now, or its program has died.
func (o Once) Begin(ctx context.Context) (result string, begun bool, err error) {
	begun, err = o.rdb.SetNX(ctx, o.key, o.mark, o.life).Result()
	if err != nil || begun {
		return "", begun, err
	}
	stored, err := o.rdb.Get(ctx, o.key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", false, err
	}
	hash, _, _ := strings.Cut(o.mark, " ")
	parts := strings.SplitN(stored, " ", 3)
	switch {
	case stored == o.mark: // the client library has sent it twice
		return "", true, nil
	case stored != "" && parts[0] != hash:
		return "", false, session.ErrConflict
	case len(parts) < 3:
		return "", false, fmt.Errorf("%w: the command was begun under this id, and may have been carried out; look at the session", session.ErrExpired)
	}
	return parts[2], false, nil
}

// End stores the result.
func (o Once) End(ctx context.Context, result string) error {
	return o.rdb.Set(ctx, o.key, o.mark+" "+result, o.life).Err()
}

// Free forgets the id.
func (o Once) Free(ctx context.Context) error { return o.rdb.Del(ctx, o.key).Err() }
