package lockguard

import (
	"cmp"
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

	"turnstile/internal/protocol/lease"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/script"
)

var (
	// ErrHeld is returned by TryAcquire if another holds the lock. The text names the holder.
	ErrHeld = errors.New("lock held")

	// ErrLost is returned by Held and Release, and is the cause of a lock's context: the lock was not
	// renewed in time, or Redis has another holder or none.
	ErrLost = lease.ErrLost

	// ErrInvalid is returned for a bad name. A name has 1 to 512 bytes and no braces, which Redis Cluster
	// reads as a hash tag. It does not begin with "session:", as the keys of Turnstile's sessions do.
	ErrInvalid = errors.New("bad lock name")
)

const (
	defaultTTL = 15 * time.Second
	minTTL     = 50 * time.Millisecond
	maxName    = 512

	// inFlight is how many requests of one guard are in flight before further ones share a round trip.
	inFlight = 4
)

// Guard takes locks on one Redis. It is safe for concurrent use and has nothing to close. One Guard
// serves a whole process.
type Guard struct {
	rdb     redis.UniversalClient
	batcher *script.Batcher
	line    line
	owner   string
	ttl     time.Duration
	counted int    // 1: PUBLISH returns how many subscribers got a grant
	id      string // the beginning of every token of this guard
	tokens  atomic.Uint64
}

// Config has a Guard's settings. A zero field means its default.
type Config struct {
	// Owner is the name that others see as the holder of this guard's locks. Defaults to HOSTNAME:PID.
	Owner string

	// TTL is how long a lock outlives a holder that dies. It is at least 50 ms. Defaults to 15 s.
	TTL time.Duration
}

// New returns a Guard. It does not connect. It shares rdb, which the caller closes after releasing its
// locks. Two configs panic.
func New(rdb redis.UniversalClient, config ...Config) (*Guard, error) {
	if len(config) > 1 {
		panic("lockguard: New takes one Config")
	}
	c := cmp.Or(config...)
	g := &Guard{rdb: rdb, batcher: script.NewBatcher(rdb, inFlight), owner: c.Owner, ttl: cmp.Or(c.TTL, defaultTTL), id: rand.Text()}
	if g.ttl < minTTL {
		return nil, fmt.Errorf("lock guard: TTL %v is under %v", g.ttl, minTTL)
	}
	if g.owner == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		g.owner = host + ":" + strconv.Itoa(os.Getpid())
	}
	g.line = line{rdb: rdb, channel: rediskey.Grants(g.id), waiters: map[string]chan news{}}
	// Other clients have several nodes, and PUBLISH counts the subscribers of one.
	if _, single := rdb.(*redis.Client); single {
		g.counted = 1
	}
	return g, nil
}

// TryAcquire takes the lock if it is free and nobody waits for it. Otherwise it returns an error that
// wraps [ErrHeld]. ctx bounds the call, not the lock.
func (g *Guard) TryAcquire(ctx context.Context, name string) (*Lock, error) {
	c, err := g.claim(ctx, name)
	if err != nil {
		return nil, err
	}
	lock, f, err := c.acquire(ctx)
	switch h, _ := holderOf(f); {
	case err != nil:
		go c.giveUp(ctx)
	case lock == nil && h.Owner == "":
		err = ErrHeld
	case lock == nil:
		err = fmt.Errorf("%w by %s since %s", ErrHeld, h.Owner, h.Since.UTC().Format(time.RFC3339))
	}
	return lock, c.failed(err)
}

// Acquire takes the lock. While another holds it, Acquire waits in line: first come, first served. It
// does not poll: the holder's Release hands the lock over.
//
// ctx bounds the wait, not the lock. When it ends, Acquire returns at once with an error that wraps
// ctx.Err() and leaves the line. If it gets the lock after that, it passes the lock on.
func (g *Guard) Acquire(ctx context.Context, name string) (*Lock, error) {
	c, err := g.claim(ctx, name)
	if err != nil {
		return nil, err
	}
	locks, failed := make(chan *Lock), make(chan error, 1)
	go func() {
		lock, err := c.wait(ctx)
		if err != nil {
			failed <- err
			c.giveUp(ctx)
			return
		}
		select {
		case locks <- lock:
		case <-ctx.Done(): // the caller has left
			_ = lock.Release(ctx)
		}
	}()
	select {
	case lock := <-locks:
		return lock, nil
	case err = <-failed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, c.failed(err)
}

// Holder is who holds a lock, as Redis saw it during the call.
type Holder struct {
	Owner   string        // its Config.Owner; empty if unknown
	Since   time.Time     // when it took the lock, by Redis' clock; zero if unknown
	Fence   int64         // its fencing token; 0 if unknown
	Left    time.Duration // without a renewal; negative if another program has removed the TTL
	Waiting int           // how many wait in line
}

// Holder returns who holds a lock. The result is zero if nobody does.
func (g *Guard) Holder(ctx context.Context, name string) (Holder, error) {
	c, err := g.claim(ctx, name)
	if err != nil {
		return Holder{}, err
	}
	r, err := lockScript.Run(ctx, g.rdb, c.keys[:], "holder")
	f := r.Named("holder", "run", "left", "waiting")
	h, _ := holderOf(f)
	h.Waiting = int(f.Int("waiting"))
	return h, c.failed(err)
}

// holderOf decodes a holder's token, the record and the rest of the TTL. last is the highest fencing
// token in the record, whoever had it.
func holderOf(f script.Fields) (h Holder, last int64) {
	h.Left = f.Millis("left")
	record := strings.SplitN(f.Text("run"), " ", 5) // fence, since, held, token, owner
	last, _ = strconv.ParseInt(record[0], 10, 64)
	if len(record) == 5 && record[3] == f.Text("holder") {
		h.Fence, h.Owner = last, record[4]
		if since, err := strconv.ParseInt(record[1], 10, 64); err == nil {
			h.Since = time.UnixMicro(since)
		}
	}
	return h, last
}
