package admin

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/script"
)

// deadPage is about how many places of dead letters a round trip reads. One command for all would
// block Redis: 30 ms for 50,000.
const deadPage = 200

// deadPlace is a dead letter's place among the others. It has no text, because all places of a
// session are in memory at once.
type deadPlace struct {
	id      string // of the task
	second  int64  // Unix time at which it was archived
	arrived string // ms, as it is stored; "" if another program archived it
	seq     int64
	size    int // bytes of it that a script has to read; 0 if deadPlaces had no filter
}

// byArrival compares places by the order in which the messages arrived.
func byArrival(a, b deadPlace) int {
	return cmp.Or(cmp.Compare(script.Number(a.arrived), script.Number(b.arrived)), cmp.Compare(a.seq, b.seq), cmp.Compare(a.id, b.id))
}

// deadPages visits the IDs of a session's dead letters, with the seconds in which they were
// archived, a page at a time and in no order. It visits each dead letter that exists during the
// whole call, some of them twice.
func (a *Client) deadPages(ctx context.Context, k rediskey.Session, visit func(ids []string, seconds []int64) error) error {
	page := func(pairs []string) error {
		for part := range slices.Chunk(pairs, 2*deadPage) { // the embedded server returns all at once
			var ids []string
			var seconds []int64
			for i := 0; i+1 < len(part); i += 2 {
				score, _ := strconv.ParseFloat(part[i+1], 64) // Redis has formatted it
				ids, seconds = append(ids, part[i]), append(seconds, int64(score))
			}
			if err := visit(ids, seconds); err != nil {
				return err
			}
		}
		return nil
	}
	return index.NewWalker(a.rdb).Each(ctx, page, func(cursor uint64) ([]string, uint64, error) {
		return a.rdb.ZScan(ctx, k.Archived(), cursor, "", deadPage).Result()
	})
}

// deadPlaces reads the places of a session's dead letters, in no order. If wanted is not nil, it
// reads only those with a wanted stored result, with their sizes.
func (a *Client) deadPlaces(ctx context.Context, k rediskey.Session, wanted func(result string) bool) (all []deadPlace, err error) {
	err = a.deadPages(ctx, k, func(ids []string, seconds []int64) error {
		tasks, sizes := make([]*redis.SliceCmd, len(ids)), make([]*redis.IntCmd, len(ids))
		_, err := a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, id := range ids {
				if wanted == nil {
					tasks[i] = p.HMGet(ctx, k.Task(id), "arrived", "seq")
					continue
				}
				tasks[i] = p.HMGet(ctx, k.Task(id), "arrived", "seq", "result")
				sizes[i] = p.HStrLen(ctx, k.Task(id), "msg")
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i, id := range ids {
			t := script.HashFields(tasks[i])
			d := deadPlace{id: id, second: seconds[i], arrived: t.Text("arrived"), seq: t.Int("seq")}
			if wanted != nil {
				result := t.Text("result")
				if !wanted(result) {
					continue
				}
				d.size = int(sizes[i].Val()) + len(result)
			}
			all = append(all, d)
		}
		return nil
	})
	return all, err
}
