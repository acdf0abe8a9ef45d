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
	// ErrName is wrapped by the error about a lock's name that is not allowed. A name has 1 to 512
	// bytes and no braces, which Redis Cluster would read as a hash tag, and does not begin with
	// "session:", as the names of Turnstile's sessions do.
	ErrName = errors.New("bad lock name")

	// ErrClosed is wrapped by the error of an Acquire on a closed Guard.
	ErrClosed = errors.New("lock guard closed")
)

const maxName = 512

// Guard takes locks on one Redis. It is safe for concurrent use: one Guard serves a whole process.
type Guard struct {
	client redis.UniversalClient
	settings
	line    *line
	keeper  keeper
	batcher *script.Batcher

	id     string // the beginning of every token of this guard
	tokens atomic.Uint64

	// Strings: arguments of the scripts.
	ownerArg, ttlArg, recordTTLArg, countedArg any
}

// inFlight is how many requests of one guard are in flight before further ones share a round trip.
const inFlight = 4

// New returns a Guard. It does not connect. It shares client, which the caller closes after the
// Guard and its locks.
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
		client:       client,
		settings:     s,
		line:         newLine(client, rediskey.Grants(id)),
		batcher:      script.NewBatcher(client, inFlight),
		id:           id,
		ownerArg:     s.owner,
		ttlArg:       milliseconds(s.ttl),
		recordTTLArg: milliseconds(recordLonger + s.ttl),
		countedArg:   "0",
	}
	// On a single Redis, PUBLISH returns how many subscribers got a grant. Other clients have
	// several nodes, and PUBLISH counts the subscribers of one.
	if _, single := client.(*redis.Client); single {
		g.countedArg = "1"
	}
	return g, nil
}

// Close ends every waiting Acquire of this guard with [ErrClosed], and returns when they have left
// their lines. Held locks stay held and renewed until they are released. Close may be called twice,
// and always returns nil.
func (g *Guard) Close() error {
	g.line.close()
	return nil
}

// TryAcquire takes the lock if it is free and nobody waits for it. Otherwise it returns an error
// that wraps [ErrHeld], without waiting. The lock's context is derived from ctx.
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

// tried returns what the caller of an attempt outside the line gets.
func (c *claim) tried(ctx context.Context, a attempt, err error) (*Lock, error) {
	if err != nil {
		c.releaseAfterLostReply(err)
		return nil, fmt.Errorf("lock %q: %w", c.name, err)
	}
	if !a.ours {
		return nil, c.held(a)
	}
	return c.lock(ctx, a.sent, a.fence, a.left), nil
}

func (c *claim) held(a attempt) error { return &HeldError{Name: c.name, Holder: a.other} }

// releaseAfterLostReply releases the lock in the background if the claim may have taken it but the
// reply was lost. If Redis replied with the error, nothing was taken.
func (c *claim) releaseAfterLostReply(err error) {
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
