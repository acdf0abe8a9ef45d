package maintenance

import (
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/index"
)

// Maintenance does the jobs of one worker.
type Maintenance struct {
	index.Walker
	rdb   redis.UniversalClient
	cfg   protocol.Config
	alone protocol.Alone
}

// New makes the Maintenance of the consumer's worker.
func New(rdb redis.UniversalClient, c *protocol.Consumer) *Maintenance {
	return &Maintenance{Walker: c.Walker, rdb: rdb, cfg: c.Config(), alone: c.Alone()}
}
