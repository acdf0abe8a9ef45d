package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/tenants"
	"turnstile/pkg/session"
)

// ApplyTenants checks a table of tenants and stores it for all workers, which use it within 5 s. Their turns go on. docs/tenants.md
// has its form. An error about the table wraps session.ErrInvalid, and nothing is stored; each of its lines is one mistake.
func (a *Client) ApplyTenants(ctx context.Context, table []byte) error {
	t, err := tenants.Parse(table)
	if err != nil {
		return fmt.Errorf("%w tenants: %w", session.ErrInvalid, err)
	}
	old, err := a.rdb.HKeys(ctx, rediskey.Limits).Result()
	if err == nil {
		_, err = a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, rediskey.Tenants, table, 0)
			for limit, most := range t.Caps() {
				p.HSet(ctx, rediskey.Limits, limit, most)
			}
			for _, limit := range old {
				if _, still := t.Caps()[limit]; !still {
					p.HDel(ctx, rediskey.Limits, limit)
				}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("store the tenants: %w", err)
	}
	return nil
}

// RemoveTenants removes the table: sessions run first come, first served, and without limits.
func (a *Client) RemoveTenants(ctx context.Context) error {
	if err := a.rdb.Del(ctx, rediskey.Tenants, rediskey.Limits).Err(); err != nil {
		return fmt.Errorf("remove the tenants: %w", err)
	}
	return nil
}

// Limit is what a tenant or an agent may use at once, and uses now.
type Limit struct {
	Kind    string // "tenant" or "agent"
	Name    string // "*": of each one without an entry
	Weight  int    // of a tenant
	Cap     int    // how many of its sessions may run at once. 0: any number
	Running int    // how many of them run, as far as they are counted: since there is a cap. Of "*" unknown
	Held    int    // how many wait for one of these to end
}

// Limits returns the entries of the table of tenants, sorted. It returns false if there is none.
func (a *Client) Limits(ctx context.Context) ([]Limit, bool, error) {
	text, err := a.rdb.Get(ctx, rediskey.Tenants).Result()
	if errors.Is(err, redis.Nil) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the tenants: %w", err)
	}
	table, err := tenants.Parse([]byte(text))
	if err != nil {
		return nil, true, fmt.Errorf("the stored tenants are wrong, apply them again: %w", err)
	}
	caps := table.Caps()
	names := slices.Collect(maps.Keys(caps))
	for _, name := range table.Tenants() {
		names = append(names, "tenant:"+name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	held := make([]*redis.IntCmd, len(names))
	var running *redis.SliceCmd
	_, err = a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		running = p.HMGet(ctx, rediskey.Running, append(names, "")...) // never empty
		for i, name := range names {
			held[i] = p.ZCard(ctx, rediskey.Held+name)
		}
		return nil
	})
	if err != nil {
		return nil, true, fmt.Errorf("read the limits: %w", err)
	}
	list := make([]Limit, len(names))
	for i, name := range names {
		l := Limit{Cap: caps[name], Held: int(held[i].Val())}
		if n, ok := running.Val()[i].(string); ok {
			l.Running, _ = strconv.Atoi(n)
		}
		l.Kind, l.Name = tenants.Split(name)
		if l.Kind == tenants.OfTenant {
			l.Weight = table.Weight(l.Name)
		}
		list[i] = l
	}
	return list, true, nil
}
