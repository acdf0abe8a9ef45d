package index

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
)

// WalkBatch is about how many sessions one visit gets.
const WalkBatch = 500

// Walker visits all sessions, in batches.
type Walker struct {
	rdb     redis.UniversalClient
	Skipped func(name string) // called with invalid names, if not nil
}

// NewWalker returns a Walker of the sessions in rdb.
func NewWalker(rdb redis.UniversalClient) Walker { return Walker{rdb: rdb} }

// ValidNames keeps the names that are valid session keys. An asynq.Client takes any queue name: one
// may begin as a session's does and continue with characters that break a hash tag or a terminal.
// Such queues are not touched.
func (w Walker) ValidNames(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		if session.ValidateKey(name) == nil {
			return false
		}
		if w.Skipped != nil {
			w.Skipped(name)
		}
		return true
	})
}

// EachQueue visits the sessions with a queue on asynq's list, in batches.
func (w Walker) EachQueue(ctx context.Context, visit func(sessions []string) error) error {
	return w.Each(ctx, visit, func(cursor uint64) ([]string, uint64, error) {
		names, next, err := w.rdb.SScan(ctx, rediskey.AllQueues, cursor, rediskey.Queue("*"), WalkBatch).Result()
		sessions := names[:0]
		for _, name := range names {
			if s, ok := rediskey.SessionOf(name); ok {
				sessions = append(sessions, s)
			}
		}
		return w.ValidNames(sessions), next, err
	})
}

// eachSession visits every session that was not forgotten, in batches.
func (w Walker) eachSession(ctx context.Context, visit func(sessions []string) error) error {
	return w.Each(ctx, visit, func(cursor uint64) ([]string, uint64, error) {
		pairs, next, err := w.rdb.ZScan(ctx, rediskey.Sessions, cursor, "", WalkBatch).Result()
		sessions := make([]string, 0, len(pairs)/2)
		for i := 0; i < len(pairs); i += 2 {
			sessions = append(sessions, pairs[i])
		}
		return w.ValidNames(sessions), next, err
	})
}

// EverySession visits every session that is known or on asynq's list, each once unless SCAN repeats
// it. It keeps no list of the visited sessions in memory.
func (w Walker) EverySession(ctx context.Context, visit func(sessions []string) error) error {
	if err := w.eachSession(ctx, visit); err != nil {
		return err
	}
	return w.EachQueue(ctx, func(sessions []string) error {
		sessions, err := w.Absent(ctx, rediskey.Sessions, sessions)
		if err != nil {
			return err
		}
		return visit(sessions)
	})
}

// Each visits the results of scan, page by page.
func (w Walker) Each(ctx context.Context, visit func([]string) error, scan func(cursor uint64) ([]string, uint64, error)) error {
	for cursor := uint64(0); ; {
		sessions, next, err := scan(cursor)
		if err != nil {
			return err
		}
		if err := visit(sessions); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// existsGroup is how many sessions one EXISTS checks.
const existsGroup = 50

// WithTasks keeps the sessions that have any of the named keys, in their order. It checks groups first:
// usually no session of a group has one. In a long line all have pending.
func (w Walker) WithTasks(ctx context.Context, sessions []string, names ...func(rediskey.Session) string) (found []string, err error) {
	groups := w.groups(sessions)
	counts, err := w.count(ctx, groups, names)
	if err != nil {
		return nil, err
	}
	all := func(i int) bool {
		return counts[i] == len(groups[i])*len(names) || len(groups[i]) == 1 && counts[i] > 0
	}
	var alone [][]string
	for i, group := range groups {
		if counts[i] > 0 && !all(i) {
			alone = slices.AppendSeq(alone, slices.Chunk(group, 1))
		}
	}
	each, err := w.count(ctx, alone, names)
	if err != nil {
		return nil, err
	}
	for i, group := range groups {
		if all(i) {
			found = append(found, group...)
			continue
		}
		if counts[i] == 0 {
			continue
		}
		for _, s := range group {
			if each[0] > 0 {
				found = append(found, s)
			}
			each = each[1:]
		}
	}
	return found, nil
}

// NearTasks keeps the groups of sessions in which one has any of the named keys, for callers that
// check each session anyway. On a Cluster it keeps all sessions.
func (w Walker) NearTasks(ctx context.Context, sessions []string, names ...func(rediskey.Session) string) (found []string, err error) {
	if _, single := w.rdb.(*redis.Client); !single {
		return sessions, nil
	}
	groups := w.groups(sessions)
	counts, err := w.count(ctx, groups, names)
	for i, n := range counts {
		if n > 0 {
			found = append(found, groups[i]...)
		}
	}
	return found, err
}

// groups divides sessions into those that one command checks: one on a Cluster, where a command cannot check
// keys of two slots.
func (w Walker) groups(sessions []string) [][]string {
	size := 1
	if _, single := w.rdb.(*redis.Client); single {
		size = existsGroup
	}
	return slices.Collect(slices.Chunk(sessions, size))
}

// count counts how many of the named keys the sessions of each group have.
func (w Walker) count(ctx context.Context, groups [][]string, names []func(rediskey.Session) string) ([]int, error) {
	cmds := make([]*redis.IntCmd, len(groups))
	_, err := w.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, group := range groups {
			keys := make([]string, 0, len(group)*len(names))
			for _, s := range group {
				k := rediskey.For(s)
				for _, name := range names {
					keys = append(keys, name(k))
				}
			}
			cmds[i] = p.Exists(ctx, keys...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	counts := make([]int, len(cmds))
	for i, cmd := range cmds {
		counts[i] = int(cmd.Val())
	}
	return counts, nil
}

// Absent keeps the sessions that are not in an index.
func (w Walker) Absent(ctx context.Context, index string, sessions []string) (rest []string, err error) {
	if len(sessions) == 0 {
		return nil, nil
	}
	scores, err := w.rdb.ZMScore(ctx, index, sessions...).Result()
	if err != nil {
		return nil, err
	}
	for i, s := range sessions {
		if scores[i] == 0 {
			rest = append(rest, s)
		}
	}
	return rest, nil
}

// Without returns the elements of all that are not in some.
func Without(all, some []string) []string {
	in := make(map[string]bool, len(some))
	for _, s := range some {
		in[s] = true
	}
	var rest []string
	for _, s := range all {
		if !in[s] {
			rest = append(rest, s)
		}
	}
	return rest
}

// EachMaster calls visit with the single Redis, or with all masters of a Cluster at the same time.
// node is the master's address, "" for a single Redis.
func EachMaster(ctx context.Context, rdb redis.UniversalClient, visit func(ctx context.Context, node string, rdb redis.Cmdable) error) error {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		return visit(ctx, "", rdb)
	}
	return cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		return visit(ctx, master.Options().Addr, master)
	})
}
