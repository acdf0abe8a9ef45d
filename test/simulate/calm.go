package simulate

import (
	"fmt"
	"sync"
	"time"

	"turnstile/test/history"
)

const (
	// settled is the time without a failure before the calm begins.
	settled = 5 * time.Second

	// calmMessages is how many messages each chat sends in the calm.
	calmMessages = 3
)

// calm follows the faults, when no message is left. Chats send a few more messages, and the workers are
// replaced one after the other, as in a deploy. A worker is free all the time, so nothing may wait until a
// sweep finds it.
func (l *life) calm() {
	l.healing.Wait()
	select {
	case <-l.enabled:
	case <-l.ctx.Done():
	}
	l.applyTenants(`{"tenants": {}}`) // without a limit, for which sessions would wait
	sleep(l.ctx, settled)
	l.log.Add(history.Record{Kind: history.Calm})
	l.isCalm.Store(true)
	var running sync.WaitGroup
	for _, c := range l.chats {
		running.Go(c.calm)
	}
	running.Go(l.deploy)
	running.Wait()
}

// calm sends messages without modes and delays, one or two at once, and returns after the end of
// all.
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
		l.fault("deploy", s.name, 0)
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
