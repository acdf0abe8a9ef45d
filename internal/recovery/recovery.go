package recovery

import (
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
)

// Recovery finds sessions whose wake-up was lost, whose time has come, or whose owner or
// claimer died.
type Recovery struct {
	protocol.Walker
	rdb   redis.UniversalClient
	cfg   protocol.Config
	alone protocol.Alone
}

// New makes the Recovery of the consumer's worker.
func New(rdb redis.UniversalClient, c *protocol.Consumer) *Recovery {
	return &Recovery{Walker: c.Walker, rdb: rdb, cfg: c.Config(), alone: c.Alone()}
}
