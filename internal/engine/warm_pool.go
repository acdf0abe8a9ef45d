package engine

import (
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"turnstile/pkg/agent"
)

// warmAgent is a session's agent that outlives its turns.
type warmAgent struct {
	agent.Warm
	session   string
	signature string
	seen      seen
	idle      time.Time // since when, while it is in the pool
}

// warmPool has the warm agents of a worker's sessions between their turns. An agent that runs a
// turn is not in the pool: take removes it and put returns it, so an agent is never evicted
// during a turn.
//
// Agents are closed on goroutines of their own: an agent that does not end delays only callers
// that wait for it.
type warmPool struct {
	warmer    agent.Warmer
	stateless bool
	most      int
	ttl       time.Duration
	log       *slog.Logger

	mu     sync.Mutex
	idle   *simplelru.LRU[string, *warmAgent] // by session; the longest idle first
	expiry *time.Timer                        // of the longest idle; nil: the pool is empty
	ended  bool

	closing sync.WaitGroup
}

// newWarmPool returns nil if the agent cannot be kept warm.
func newWarmPool(a agent.Agent, o Options) *warmPool {
	warmer, ok := a.(agent.Warmer)
	if !ok {
		return nil
	}
	c := &warmPool{warmer: warmer, most: max(o.WarmAgents, 0), ttl: o.WarmTTL, log: o.Logger}
	if s, ok := a.(agent.Stateless); ok {
		c.stateless = s.Stateless()
	}
	var err error
	if c.idle, err = simplelru.NewLRU[string, *warmAgent](max(c.most, 1), nil); err != nil {
		panic(err) // only a size below 1 is refused
	}
	return c
}

// has reports whether a session's agent is in the pool. During a turn it is not.
func (c *warmPool) has(session string) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle.Contains(session)
}

// take removes a session's agent and returns it, or nil. The caller must put it back or close it.
func (c *warmPool) take(session string) *warmAgent {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.idle.Peek(session)
	if !ok {
		return nil
	}
	c.idle.Remove(session)
	c.schedule()
	return a
}

// takeBack removes a given agent from the pool, and reports whether it was still there.
func (c *warmPool) takeBack(a *warmAgent) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if idle, ok := c.idle.Peek(a.session); !ok || idle != a {
		return false
	}
	c.idle.Remove(a.session)
	c.schedule()
	return true
}

// put adds an agent whose turn is over. If there are too many it closes the one that has been
// idle longest.
func (c *warmPool) put(a *warmAgent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.most == 0 {
		c.close(a)
		return
	}
	// A session that was lost and claimed again may have another agent in the pool.
	if old, ok := c.idle.Peek(a.session); ok {
		c.idle.Remove(a.session)
		c.close(old)
	} else if c.idle.Len() == c.most {
		_, oldest, _ := c.idle.RemoveOldest()
		c.close(oldest)
	}
	a.idle = time.Now()
	c.idle.Add(a.session, a)
	c.schedule()
}

// schedule sets the timer for the longest idle, if there is one. c.mu is held.
func (c *warmPool) schedule() {
	_, oldest, ok := c.idle.GetOldest()
	switch {
	case !ok && c.expiry != nil:
		c.expiry.Stop()
		c.expiry = nil
	case ok && c.expiry == nil:
		c.expiry = time.AfterFunc(time.Until(oldest.idle.Add(c.ttl)), c.expire)
	case ok:
		c.expiry.Reset(time.Until(oldest.idle.Add(c.ttl)))
	}
}

// expire closes the agents that were idle for too long.
func (c *warmPool) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		_, oldest, ok := c.idle.GetOldest()
		if !ok || time.Since(oldest.idle) < c.ttl {
			break
		}
		c.idle.RemoveOldest()
		c.close(oldest)
	}
	c.schedule()
}

// end closes all agents and waits until every closed agent has ended. Call it when no turn runs
// any more.
func (c *warmPool) end() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.ended = true
	for c.idle.Len() > 0 {
		_, a, _ := c.idle.RemoveOldest()
		c.close(a)
	}
	c.schedule()
	c.mu.Unlock()
	c.closing.Wait()
}

// close closes an agent that nothing uses any more. The channel is closed when the agent has
// ended.
func (c *warmPool) close(a *warmAgent) (closed <-chan struct{}) {
	done := make(chan struct{})
	log := c.log.With("session", a.session)
	c.closing.Go(func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				log.Error("closing a warm agent panicked", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		if err := a.Close(); err != nil {
			log.Warn("a warm agent was not closed well", "error", err)
		}
	})
	return done
}
