package worker

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
	name      string // of the agent
	signature string
	seen      seen
	idle      time.Time // since when, while it is in the pool
}

// warmPool has the warm agents of a worker's sessions between their turns. An agent that runs a
// turn is not in the pool: take removes it and put returns it, so an agent is never evicted
// during a turn.
//
// Agents are closed on separate goroutines: an agent that does not end delays only callers that
// wait for it.
type warmPool struct {
	most int
	ttl  time.Duration
	log  *slog.Logger

	mu     sync.Mutex
	idle   *simplelru.LRU[string, *warmAgent] // by session; the longest idle first
	expiry *time.Timer                        // of the longest idle; nil: the pool is empty
	ended  bool

	closing sync.WaitGroup
}

func newWarmPool(c Config) *warmPool {
	p := &warmPool{most: c.WarmAgents, ttl: c.WarmTTL, log: c.Logger}
	var err error
	if p.idle, err = simplelru.NewLRU[string, *warmAgent](p.most, nil); err != nil {
		panic(err) // only a size below 1 is refused
	}
	return p
}

// has reports whether a session's agent is in the pool. During a turn it is not.
func (p *warmPool) has(session string) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idle.Contains(session)
}

// take removes a session's agent and returns it, or nil. The caller must put it back or close it.
func (p *warmPool) take(session string) *warmAgent {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.idle.Peek(session)
	if !ok {
		return nil
	}
	p.idle.Remove(session)
	p.schedule()
	return a
}

// takeBack removes a given agent from the pool, and reports whether it was still there.
func (p *warmPool) takeBack(a *warmAgent) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if idle, ok := p.idle.Peek(a.session); !ok || idle != a {
		return false
	}
	p.idle.Remove(a.session)
	p.schedule()
	return true
}

// put adds an agent after its turn. If there are too many, it closes the one that was idle longest.
func (p *warmPool) put(a *warmAgent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.most == 0 {
		p.close(a)
		return
	}
	// A session that was lost and claimed again may have another agent in the pool.
	if old, ok := p.idle.Peek(a.session); ok {
		p.idle.Remove(a.session)
		p.close(old)
	} else if p.idle.Len() == p.most {
		_, oldest, _ := p.idle.RemoveOldest()
		p.close(oldest)
	}
	a.idle = time.Now()
	p.idle.Add(a.session, a)
	p.schedule()
}

// schedule sets the timer for the longest idle, if there is one. p.mu is held.
func (p *warmPool) schedule() {
	_, oldest, ok := p.idle.GetOldest()
	switch {
	case !ok && p.expiry != nil:
		p.expiry.Stop()
		p.expiry = nil
	case ok && p.expiry == nil:
		p.expiry = time.AfterFunc(time.Until(oldest.idle.Add(p.ttl)), p.expire)
	case ok:
		p.expiry.Reset(time.Until(oldest.idle.Add(p.ttl)))
	}
}

// expire closes the agents that were idle for too long.
func (p *warmPool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		_, oldest, ok := p.idle.GetOldest()
		if !ok || time.Since(oldest.idle) < p.ttl {
			break
		}
		p.idle.RemoveOldest()
		p.close(oldest)
	}
	p.schedule()
}

// end closes all agents and waits for their ends. Call it when no turn runs any more.
func (p *warmPool) end() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.ended = true
	for p.idle.Len() > 0 {
		_, a, _ := p.idle.RemoveOldest()
		p.close(a)
	}
	p.schedule()
	p.mu.Unlock()
	p.closing.Wait()
}

// close closes an unused agent. The channel is closed when the agent ended.
func (p *warmPool) close(a *warmAgent) (closed <-chan struct{}) {
	done := make(chan struct{})
	log := p.log.With("session", a.session)
	p.closing.Go(func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				log.Error("closing a warm agent panicked", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		if err := a.Close(); err != nil {
			log.Warn("closing a warm agent failed", "error", err)
		}
	})
	return done
}
