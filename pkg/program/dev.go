package program

import (
	"context"
	"fmt"
	"io"

	"turnstile/internal/program/operator"
	"turnstile/internal/program/service"
	"turnstile/internal/redis/devredis"
	"turnstile/internal/text/printable"
)

// startDev completes the settings of --dev, and starts a Redis unless REDIS_URL names one.
func startDev(ctx context.Context, c *service.Config) (*devredis.Server, error) {
	service.MakeToken(&c.Settings)
	c.AnyPort = true
	if c.Settings.RedisURLSet {
		return nil, nil
	}
	redis, err := service.StartRedis(ctx)
	if err != nil {
		return nil, err
	}
	c.Settings.RedisURL, c.Ephemeral = redis.URL(), true
	return redis, nil
}

// welcome says how to reach what --dev has started.
func welcome(out io.Writer, c service.Config, s *service.Service) {
	w := printable.NewWriter(out)
	if c.Ephemeral {
		fmt.Fprintf(w, "%s --dev: nothing is kept when it ends. In another terminal:\n\n  REDIS_URL=%s enqueue -s demo --wait hello\n\n", programName(), c.Settings.RedisURL)
	}
	if s.HTTP != nil {
		fmt.Fprintf(w, "asynqmon: %s\n\n", operator.AsynqmonURL(s.HTTP, c.Settings.HTTPToken))
	}
}
