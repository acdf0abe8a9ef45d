package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"time"
)

// guardEvery is how often a guarded gateway looks at the workers. It is the interval of a worker's
// heartbeats.
const guardEvery = 5 * time.Second

// Guard refuses the requests of a gateway without tokens while an agent of a live worker runs programs.
// Such programs can reach the gateway's loopback address, and could do everything in every session.
// Guard returns after its first look at the workers.
func (g *Gateway) Guard(ctx context.Context) {
	if g.config.Tokens != nil {
		return
	}
	g.lookAtAgents(ctx)
	g.WhileServing(func(ctx context.Context, _ *slog.Logger) {
		ticks := time.NewTicker(guardEvery)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
			g.lookAtAgents(ctx)
		}
	})
}

// lookAtAgents looks at the workers. While Redis is away it changes nothing.
func (g *Gateway) lookAtAgents(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	workers, err := g.deps.Admin.Workers(ctx)
	if err != nil {
		return
	}
	found := ""
	for _, w := range workers {
		if w.Programs {
			found = cmp.Or(w.Agent, "program.Run")
		}
	}
	if before := g.exposed.Swap(&found); found != "" && (before == nil || *before == "") {
		g.log.Warn("requests are refused: the programs of a worker's agent could reach this gateway, which has no tokens; set TURNSTILE_GATEWAY_TOKENS_FILE", "agent", found)
	}
}

// anyone returns the token of requests to a gateway without tokens.
func (g *Gateway) anyone() (Token, error) {
	if agent := g.exposed.Load(); agent != nil && *agent != "" {
		return Token{}, Fail(Forbidden, "This gateway has no tokens, and the programs of a worker's agent (%s) could use it, too. Set TURNSTILE_GATEWAY_TOKENS_FILE.", *agent)
	}
	return everybody, nil
}
