package lab

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Counter counts the commands that a client sends, by name. A script is one command. It is a hook
// of the client.
type Counter struct {
	mu sync.Mutex
	n  map[string]int
}

// Count makes a client's counter.
func Count(rdb redis.UniversalClient) *Counter {
	c := &Counter{n: map[string]int{}}
	rdb.AddHook(c)
	return c
}

// Reset begins again.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.n)
}

// Total is the number of commands.
func (c *Counter) Total() int {
	total := 0
	for _, n := range c.Commands() {
		total += n
	}
	return total
}

// Commands is the number of each command.
func (c *Counter) Commands() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

// Most lists the most frequent commands, as rates per unit.
func (c *Counter) Most(per float64) string {
	counts := c.Commands()
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	var most []string
	for _, name := range names[:min(5, len(names))] {
		most = append(most, fmt.Sprintf("%s %.3g", name, float64(counts[name])/per))
	}
	return strings.Join(most, ", ")
}

func (c *Counter) add(cmds ...redis.Cmder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cmd := range cmds {
		c.n[strings.ToLower(cmd.Name())]++
	}
}

// DialHook implements redis.Hook.
func (c *Counter) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (c *Counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.add(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (c *Counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.add(cmds...)
		return next(ctx, cmds)
	}
}
