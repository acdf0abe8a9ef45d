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

// warmPool has the warm agents of a worker's sessions between their turns. An
// agent that runs a turn is not in it: take hands it out and put brings it
// back, so none is ever evicted from under its turn.
//
// Agents are closed on goroutines of their own: one that does not end holds up
// nobody who does not ask to wait for it.
type warmPool struct {
	warmer    agent.Warmer
	stateless bool
	most      int
	ttl       time.Duration
	log       *slog.Logger

	mu     sync.Mutex
	idle   *simplelru.LRU[string, *warmAgent] // by session; the longest idle first
	expiry *time.Timer                        // of the longest idle; nil: there is none
	ended  bool

	closing sync.WaitGroup
}

// newWarmPool returns nil for an agent that is not kept warm.
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

// has reports whether a session's agent is in the pool. While it runs a turn it is not.
func (c *warmPool) has(session string) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle.Contains(session)
}

// take hands out a session's agent, or nil. It belongs to the caller, who puts it back
// or closes it.
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

// takeBack is take for one certain agent, and reports whether it was still there.
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

// put takes an agent whose turn is over. The longest idle goes if there are too
// many.
func (c *warmPool) put(a *warmAgent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.most == 0 {
		c.close(a)
		return
	}
	// A session that was lost and claimed again may have left another.
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

// expire closes those that were idle for too long.
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

// end closes all and waits until every agent that was ever to be closed is. No
// turn runs any more.
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

// close ends an agent that is nobody's any more, and tells when it has ended.
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
