package recovery

import (
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/index"
)

// Recovery finds sessions that are due, that lost their wake-up, or that lost their owner or claimer.
type Recovery struct {
	index.Walker
	rdb   redis.UniversalClient
	cfg   protocol.Config
	alone protocol.Alone
	queue *protocol.Consumer
}

// New makes the Recovery of the consumer's worker.
func New(rdb redis.UniversalClient, c *protocol.Consumer) *Recovery {
	return &Recovery{Walker: c.Walker, rdb: rdb, cfg: c.Config(), alone: c.Alone(), queue: c}
}
