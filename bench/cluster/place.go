package main

import (
	"context"
	"strings"
	"time"

	"turnstile/bench/internal/lab"
	"turnstile/internal/redis/redisconn"
)

// place is a Redis or a Redis Cluster.
type place struct {
	name, url string
	nodes     []*lab.Server
}

// cluster starts a Redis Cluster as [lab.StartCluster] does.
func cluster(ctx context.Context, name string, masters int, apart ...[]string) (place, error) {
	nodes, err := lab.StartCluster(ctx, masters, apart...)
	addrs := make([]string, len(nodes))
	for i, n := range nodes {
		addrs[i] = n.Addr()
	}
	return place{name, "redis-cluster://" + strings.Join(addrs, ","), nodes}, err
}

func (p place) stop() {
	for _, n := range p.nodes {
		n.Stop()
	}
}

// measure is the cost of a load, per message except for the rate.
type measure struct {
	rate          float64   // messages a second, from the workers' start to the last turn's end
	workers       float64   // us of the processor time of all workers
	sent, drained []float64 // us of each node's processor time, while messages are sent and while they run
	commands      []float64 // from the workers to each node; a script is one
}

// middle has the median of each figure.
func middle(all []measure) measure {
	pick := func(figures func(measure) []float64) []float64 {
		medians := make([]float64, len(figures(all[0])))
		for i := range medians {
			medians[i] = lab.MedianOf(all, func(m measure) float64 { return figures(m)[i] })
		}
		return medians
	}
	alone := pick(func(m measure) []float64 { return []float64{m.rate, m.workers} })
	return measure{
		alone[0], alone[1],
		pick(func(m measure) []float64 { return m.sent }),
		pick(func(m measure) []float64 { return m.drained }),
		pick(func(m measure) []float64 { return m.commands }),
	}
}

// drain sends a load to the empty place, and then measures how workers run it.
func (p place) drain(ctx context.Context, l lab.Load, workers int) (m measure, err error) {
	for _, n := range p.nodes {
		if err := n.Clear(ctx); err != nil {
			return m, err
		}
	}
	rdb, err := redisconn.Open(p.url, redisconn.WithPoolSize(*slots))
	if err != nil {
		return m, err
	}
	defer rdb.Close()
	f, err := startFleet(ctx, workers, job{p.url, *slots, l.Messages()})
	defer f.end()
	if err != nil {
		return m, err
	}
	clean, err := p.processors(ctx)
	if err != nil {
		return m, err
	}
	if err := l.Fill(ctx, rdb, "bench", "hello"); err != nil {
		return m, err
	}
	filled, err := p.processors(ctx)
	if err != nil {
		return m, err
	}
	took, states, err := f.run(ctx)
	if err != nil {
		return m, err
	}
	drained, err := p.processors(ctx)
	per := float64(l.Messages())
	us := func(d time.Duration) float64 { return d.Seconds() * 1e6 / per }
	m.rate = per / took.Seconds()
	for i := range drained {
		m.sent, m.drained = append(m.sent, us(filled[i]-clean[i])), append(m.drained, us(drained[i]-filled[i]))
		m.commands = append(m.commands, 0)
		for _, s := range states {
			m.commands[i] += float64(s.Commands[p.nodes[i].Addr()]) / per
		}
	}
	for _, s := range states {
		m.workers += us(s.Processor)
	}
	lab.Progress("%s, %s, workers: %d: %.0f/s", l, p.name, workers, m.rate)
	return m, err
}

// processors returns the processor time of each node.
func (p place) processors(ctx context.Context) (all []time.Duration, err error) {
	for _, n := range p.nodes {
		rdb := n.Client()
		defer rdb.Close()
		used, err := lab.RedisProcessor(ctx, rdb)
		if err != nil {
			return nil, err
		}
		all = append(all, used)
	}
	return all, nil
}
