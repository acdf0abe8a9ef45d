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
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/combine"
	"turnstile/internal/rediskey"
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
	line   *line
	keeper keeper

	combiner *combine.Combiner

	id     string // starts every token of this guard
	tokens atomic.Uint64

	// What every script is told; strings.
	ownerArg, ttlArg, keepArg, countedArg any
}

// flights is how many requests of one guard are on their way at once before
// further ones are combined.
const flights = 4

// New makes a Guard. It does not talk to Redis. The client stays the caller's,
// and must outlive the Guard and its locks.
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
		id:         id,
		ownerArg:   s.owner,
		ttlArg:     milliseconds(s.ttl),
		keepArg:    milliseconds(keep + s.ttl),
		countedArg: "0",
		combiner:   combine.New(client, flights),
	}
	// Elsewhere PUBLISH counts only the subscribers of one node of several.
	if _, single := client.(*redis.Client); single {
		g.countedArg = "1"
	}
	return g, nil
}

// Close ends every Acquire of this guard that waits, with [ErrClosed], and
// waits until they left their lines. Locks that are held stay held and renewed
// until they are released.
func (g *Guard) Close() error {
	g.line.close()
	return nil
}

// TryAcquire takes the lock if it is free and nobody waits for it; else it
// answers [ErrHeld] at once. The lock's context is derived from ctx.
func (g *Guard) TryAcquire(ctx context.Context, name string) (*Lock, error) {
	c, err := g.newClaim(ctx, name)
	if err != nil {
		return nil, err
	}
	return c.try(ctx)
}

func (g *Guard) newClaim(ctx context.Context, name string) (*claim, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("lock %q: %w", name, err)
	}
	token := g.id + "." + strconv.FormatUint(g.tokens.Add(1), 36)
	return &claim{guard: g, name: name, token: token, keys: keysOf(name)}, nil
}

// try asks once, without joining the line.
func (c *claim) try(ctx context.Context) (*Lock, error) {
	ans, err := c.acquire(ctx, "")
	return c.tried(ctx, ans, err)
}

// tried makes of an answer what the caller gets.
func (c *claim) tried(ctx context.Context, ans answer, err error) (*Lock, error) {
	if err != nil {
		c.giveUp(err)
		return nil, fmt.Errorf("lock %q: %w", c.name, err)
	}
	if !ans.ours {
		return nil, c.held(ans)
	}
	return c.hold(ctx, ans.sent, ans.fence, ans.left), nil
}

func (c *claim) held(ans answer) error {
	return &HeldError{Name: c.name, Holder: ans.other}
}

// giveUp releases in the background what the claim may have got although its
// script's answer did not come. An answer that is an error took nothing.
func (c *claim) giveUp(err error) {
	if !answered(err) {
		c.guard.line.spawn(func(ctx context.Context) { _, _ = c.release(ctx, true) })
	}
}

// answered tells whether an error is Redis' own answer.
func answered(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
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

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
