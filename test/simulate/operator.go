package simulate

import (
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/deliveries"
	"turnstile/pkg/admin"
	"turnstile/test/actors"
)

// operate is an operator who redrives deliveries, and pauses, disables and enables the destination.
// After the faults the operator only enables and redrives.
func (l *life) operate(rdb redis.UniversalClient) {
	rng, a, enabled := newRandom(l.seed, "operator"), admin.NewClient(rdb), sync.OnceFunc(func() { close(l.enabled) })
	for l.ctx.Err() == nil {
		sleep(l.ctx, rng.about(5*time.Second))
		state := pick(rng, deliveries.DestinationState{}, deliveries.DestinationState{}, deliveries.DestinationState{Paused: true, Why: "operator"}, deliveries.DestinationState{Disabled: true, Why: "operator"})
		helps := l.receiver.fair.Load()
		if helps {
			state = deliveries.DestinationState{}
		}
		err := actors.SetDestination(l.ctx, rdb, hook, state)
		l.log.Note("operator: %+v: %v", state, err)
		if helps && err == nil {
			enabled()
		}
		for _, c := range l.chats {
			if n, err := a.Session(c.key).Redrive(l.ctx, admin.All); n > 0 || err != nil {
				l.log.Note("operator redrives %d of %s: %v", n, c.key, err)
			}
		}
	}
}
