package actors

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/test/expect"
)

// Dump is Dump of the bench's database.
func (b *Bench) Dump() string { b.Helper(); return Dump(b.T, b.Redis) }

// Dump is the whole database as text: each key with its type, content and whether it expires,
// without the sentinels' remaining time and the jobs' timers.
func Dump(t testing.TB, rdb redis.UniversalClient) string {
	t.Helper()
	ctx := context.Background()
	names, err := rdb.Keys(ctx, "*").Result()
	expect.OK(t, err)
	sort.Strings(names)
	var out strings.Builder
	for _, name := range names {
		if strings.HasPrefix(name, rediskey.Timer("")) {
			continue
		}
		kind := rdb.Type(ctx, name).Val()
		expires := rdb.PTTL(ctx, name).Val() > 0
		fmt.Fprintf(&out, "%s %s expires=%v %s\n", name, kind, expires, Content(ctx, rdb, name, kind))
	}
	return out.String()
}

// Content is a key's content as text.
func Content(ctx context.Context, rdb redis.UniversalClient, name, kind string) string {
	switch kind {
	case "string":
		return fmt.Sprintf("%q", rdb.Get(ctx, name).Val())
	case "list":
		return fmt.Sprintf("%q", rdb.LRange(ctx, name, 0, -1).Val())
	case "set":
		members := rdb.SMembers(ctx, name).Val()
		sort.Strings(members)
		return fmt.Sprintf("%q", members)
	case "zset":
		return fmt.Sprintf("%v", rdb.ZRangeWithScores(ctx, name, 0, -1).Val())
	case "stream":
		return fmt.Sprintf("%v", rdb.XRange(ctx, name, "-", "+").Val())
	}
	fields := rdb.HGetAll(ctx, name).Val()
	lines := make([]string, 0, len(fields))
	for f, v := range fields {
		lines = append(lines, fmt.Sprintf("%s=%q", f, v))
	}
	sort.Strings(lines)
	return strings.Join(lines, " ")
}

// Same compares two dumps line by line.
func Same(t testing.TB, what, before, after string) {
	t.Helper()
	if before == after {
		return
	}
	var diff strings.Builder
	old, now := strings.Split(before, "\n"), strings.Split(after, "\n")
	for _, line := range old {
		if !slices.Contains(now, line) {
			diff.WriteString("  - " + line + "\n")
		}
	}
	for _, line := range now {
		if !slices.Contains(old, line) {
			diff.WriteString("  + " + line + "\n")
		}
	}
	t.Errorf("%s changed the database:\n%s", what, diff.String())
}
