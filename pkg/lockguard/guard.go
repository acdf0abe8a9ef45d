package lockguard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
)

var (
	// ErrName says that a lock's name is not allowed: it must have 1 to 512
	// bytes, no brace (Redis Cluster would read it as a hash tag) and not start
	// with "session:" (the keys of Turnstile's sessions).
	ErrName = errors.New("bad lock name")

	// ErrClosed says that the Guard was closed.
	ErrClosed = errors.New("lock guard closed")
)

const maxName = 512

// Guard takes locks on one Redis. One Guard serves a whole process; its methods
// may be called by several goroutines at once.
type Guard struct {
	client redis.UniversalClient
	settings
	line    *line
	keeper  keeper
	batcher *script.Batcher

	id     string // starts every token of this guard
	tokens atomic.Uint64

	// Arguments of every script; strings.
	ownerArg, ttlArg, keepArg, countedArg any
}

// inFlight is how many requests of one guard are in flight before further ones share a
// round trip.
const inFlight = 4

// New makes a Guard. It does not connect. The client stays the caller's, and must outlive
// the Guard and its locks.
func New(client redis.UniversalClient, options ...Option) (*Guard, error) {
	s := settings{ttl: defaultTTL}
	for _, option := range options {
		option(&s)
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("lock guard: %w", err)
	}
	if s.owner == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		s.owner = host + ":" + strconv.Itoa(os.Getpid())
	}
	id := rand.Text()
	g := &Guard{
		client:     client,
		settings:   s,
		line:       newLine(client, rediskey.Grants(id)),
		batcher:    script.NewBatcher(client, inFlight),
		id:         id,
		ownerArg:   s.owner,
		ttlArg:     milliseconds(s.ttl),
		keepArg:    milliseconds(keep + s.ttl),
		countedArg: "0",
	}
	// Elsewhere PUBLISH counts only the subscribers of one node of several.
	if _, single := client.(*redis.Client); single {
		g.countedArg = "1"
	}
	return g, nil
}

// Close ends every Acquire of this guard that waits, with [ErrClosed], and returns when
// they have left their lines. Locks that are held stay held and renewed until they are
// released. Close may be called twice.
func (g *Guard) Close() error {
	g.line.close()
	return nil
}

// TryAcquire takes the lock if it is free and nobody waits for it. Otherwise it returns
// [ErrHeld] at once. The lock's context is derived from ctx.
func (g *Guard) TryAcquire(ctx context.Context, name string) (*Lock, error) {
	c, err := g.newClaim(ctx, name)
	if err != nil {
		return nil, err
	}
	a, err := c.acquire(ctx, "")
	return c.tried(ctx, a, err)
}

func (g *Guard) newClaim(ctx context.Context, name string) (*claim, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("lock %q: %w", name, err)
	}
	token := g.id + "." + strconv.FormatUint(g.tokens.Add(1), 36)
	return &claim{guard: g, name: name, token: token, arg: token, keys: keysOf(name)}, nil
}

// tried turns an attempt outside the line into what the caller gets.
func (c *claim) tried(ctx context.Context, a attempt, err error) (*Lock, error) {
	if err != nil {
		c.releaseUnheard(err)
		return nil, fmt.Errorf("lock %q: %w", c.name, err)
	}
	if !a.ours {
		return nil, c.held(a)
	}
	return c.lock(ctx, a.sent, a.fence, a.left), nil
}

func (c *claim) held(a attempt) error { return &HeldError{Name: c.name, Holder: a.other} }

// releaseUnheard releases in the background what the claim may have got although the
// script's reply was lost. An error that Redis replied took nothing.
func (c *claim) releaseUnheard(err error) {
	var reply redis.Error
	if !errors.As(err, &reply) {
		c.guard.line.spawn(func(ctx context.Context) { _, _ = c.release(ctx, true) })
	}
}

func checkName(name string) error {
	if name == "" || len(name) > maxName || strings.ContainsAny(name, "{}") {
		return fmt.Errorf("%w: %.100q", ErrName, name)
	}
	if _, session := rediskey.SessionOf(name); session {
		return fmt.Errorf("%w: %.100q is a session's", ErrName, name)
	}
	return nil
}
