package simulate

import (
	"fmt"
	"sync"
	"time"
)

const (
	// promptly is how long a session may wait for a free worker, and a delivery for a deliverer, while
	// nothing fails.
	promptly = time.Second

	// firstRetry is the longest wait after the first failure of a delivery.
	firstRetry = 1250 * time.Millisecond

	// settled is for how long nothing has failed when the calm begins.
	settled = 5 * time.Second

	// calmMessages is how many messages each chat sends in the calm.
	calmMessages = 3
)

// calm is a time after all faults, when everything has ended: chats send a few messages more, and the
// workers are replaced, one after the other, as in a deploy. A worker is free all the time, so a sweep
// must not be what finds a message or a delivery.
func (l *life) calm() {
	l.healing.Wait()
	select {
	case <-l.enabled:
	case <-l.ctx.Done():
	}
	sleep(l.ctx, settled)
	l.history.becomesCalm()
	var running sync.WaitGroup
	for _, c := range l.chats {
		running.Go(c.calm)
	}
	running.Go(l.deploy)
	running.Wait()
}

// calm sends messages without modes and delays, one or two at once, and returns when all have ended.
func (c *chat) calm() {
	c.tame = true
	for n := range calmMessages {
		c.say(fmt.Sprintf("c%d", n))
		if c.rng.chance(2) {
			c.waits.Wait()
		}
		sleep(c.life.ctx, c.rng.upTo(1500*time.Millisecond))
	}
	c.waits.Wait()
}

// deploy drains the workers one after the other. The next one waits until the first is back.
func (l *life) deploy() {
	for _, s := range l.slots {
		sleep(l.ctx, l.rng.upTo(2*time.Second))
		before := l.processIn(s)
		l.history.note("deploy: %s", s.name)
		select {
		case s.ends <- restarted:
		case <-l.ctx.Done():
		}
		for now := before; l.ctx.Err() == nil && (now == nil || now == before); now = l.processIn(s) {
			sleep(l.ctx, 100*time.Millisecond)
		}
	}
}

func (l *life) processIn(s *slot) *process {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.now
}

// checkCalm: in the calm, an agent begins soon after its first message was accepted, and after the
// session's turn before. A result is posted soon after its turn, and again soon after the wait of one that
// the receiver has put off.
func (h *history) checkCalm() {
	accepted, free, ended := map[string]time.Time{}, map[string]time.Time{}, map[string]time.Time{}
	for _, m := range h.sent {
		accepted[m.session+" "+m.id] = m.at
	}
	for _, t := range h.turns {
		first := t.session + " " + t.messages[0]
		from := accepted[first]
		if free[t.session].After(from) {
			from = free[t.session]
		}
		if waited := t.began.Sub(from); h.isCalm(from) && waited > promptly {
			h.found("late", "turn %d of %s with %v begins %v after it could", t.fence, t.session, t.messages, waited)
		}
		free[t.session] = t.ended
		for _, id := range t.messages {
			ended[t.session+" "+id] = t.ended
		}
	}
	posted, before := map[string]bool{}, map[string]post{}
	for _, p := range h.posts {
		last := before[p.session] // the line goes on after it
		from, due := last.at, last.putOff
		if due {
			from = from.Add(firstRetry)
		}
		for _, id := range p.messages {
			m := p.session + " " + id
			if !posted[m] && ended[m].After(from) {
				from = ended[m]
			}
			due = due || !posted[m]
			posted[m] = true
		}
		if waited := p.at.Sub(from); due && h.isCalm(from) && waited > promptly {
			h.found("late", "delivery %d of %s is posted %v after it could", p.sequence, p.session, waited)
		}
		before[p.session] = p
	}
}

// isCalm reports whether nothing failed any more. The caller holds mu.
func (h *history) isCalm(at time.Time) bool { return !h.calm.IsZero() && at.After(h.calm) }

func (h *history) isCalmNow() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.isCalm(time.Now())
}

func (h *history) becomesCalm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calm = time.Now()
	h.log("calm")
}
