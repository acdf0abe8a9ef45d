package simulate

import (
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// operate is an operator who redrives deliveries, and pauses, disables and enables the destination. Once
// the faults are over he only helps.
func (l *life) operate(rdb redis.UniversalClient) {
	rng, a, enabled := newRandom(l.seed, "operator"), admin.NewClient(rdb), sync.OnceFunc(func() { close(l.enabled) })
	for l.ctx.Err() == nil {
		sleep(l.ctx, rng.about(5*time.Second))
		state := pick(rng, session.DestinationState{}, session.DestinationState{}, session.DestinationState{Paused: true, Why: "operator"}, session.DestinationState{Disabled: true, Why: "operator"})
		helps := l.receiver.fair.Load()
		if helps {
			state = session.DestinationState{}
		}
		err := a.SetDestination(l.ctx, hook, state)
		l.log.Note("operator: %+v: %v", state, err)
		if helps && err == nil {
			enabled()
		}
		for _, c := range l.chats {
			if n, err := a.Redrive(l.ctx, c.key, ""); n > 0 || err != nil {
				l.log.Note("operator redrives %d of %s: %v", n, c.key, err)
			}
		}
	}
}
