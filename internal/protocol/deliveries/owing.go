package deliveries

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
	"turnstile/internal/text/boundedjson"
)

// owingField is the field of rediskey.Waiting with the last count of undelivered outcomes by
// destination.
const owingField = "owing"

// owingScans bounds the calls that count one session's records. Each counts 1,000.
const owingScans = 100

// DestinationOwing counts the undelivered outcomes of a destination.
type DestinationOwing struct {
	Count  int64 `json:"n"`                // outcomes of messages that have not ended, and stored records
	Oldest int64 `json:"oldest,omitempty"` // when the oldest of these records was stored, ms; 0: no record
}

// Owings are the undelivered outcomes by destination.
type Owings map[string]DestinationOwing

// add adds one session's counts.
func (all Owings) add(of Owings) {
	for to, o := range of {
		sum := all[to]
		sum.Count += o.Count
		if o.Oldest > 0 && (sum.Oldest == 0 || o.Oldest < sum.Oldest) {
			sum.Oldest = o.Oldest
		}
		all[to] = sum
	}
}

// Count adds the undelivered outcomes of these sessions. The error joins those of single sessions,
// which are left out. lua/owing.lua.
func (all Owings) Count(ctx context.Context, rdb redis.UniversalClient, sessions []string) error {
	var failed error
	of := make([]Owings, len(sessions))
	rest, cursors := make([]int, len(sessions)), make([]string, len(sessions))
	for i := range sessions {
		of[i], rest[i], cursors[i] = Owings{}, i, "0"
	}
	now := time.Now()
	for n := 0; len(rest) > 0 && n < owingScans; n++ {
		calls := scripts.Owing.Each(ctx, rdb, len(rest), func(i int) ([]string, scripts.OwingArgs) {
			return scripts.OwingKeys(scripts.KeysOf(sessions[rest[i]], "", now)), scripts.OwingArgs{Cursor: cursors[rest[i]]}
		})
		var more []int
		for i, call := range calls {
			at := rest[i]
			if call.Err != nil {
				failed, of[at] = errors.Join(failed, call.Err), nil
				continue
			}
			r := scripts.Owing.Result(call)
			for _, line := range r.Lines {
				of[at][line.To] = DestinationOwing{Count: line.N, Oldest: line.Oldest}
			}
			if cursors[at] = r.Cursor; cursors[at] != "0" {
				more = append(more, at)
			}
		}
		rest = more
	}
	for _, one := range of {
		all.add(one)
	}
	return failed
}

// Store stores the counts for senders and metrics.
func (all Owings) Store(ctx context.Context, rdb redis.Cmdable) error {
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return rdb.HSet(ctx, rediskey.Waiting, owingField, text).Err()
}

// LastOwings returns the counts that were stored last.
func LastOwings(ctx context.Context, rdb redis.Cmdable) (Owings, error) {
	all, _, err := lastOwings(ctx, rdb)
	return all, err
}

// lastOwings also returns the counts' age. Senders may write the key, so unreadable counts count as
// none.
func lastOwings(ctx context.Context, rdb redis.Cmdable) (all Owings, age time.Duration, err error) {
	var read *redis.SliceCmd
	var now *redis.TimeCmd
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		read, now = p.HMGet(ctx, rediskey.Waiting, owingField, "at"), p.Time(ctx)
		return nil
	})
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	stored := script.HashFields(read)
	if boundedjson.Unmarshal([]byte(stored.Text(owingField)), &all) != nil {
		return nil, 0, nil //nolint:nilerr // overwritten by another program; the next count repairs it
	}
	return all, now.Val().Sub(time.UnixMilli(stored.Int("at"))), nil
}

// staleOwings is the age at which counts are ignored: no worker counts any more, while gateways may
// go on delivering.
const staleOwings = time.Minute

// fullAge is how old the counts may be for a message that names its destination, fullAgeUnnamed for
// one that may go to its session's. Workers count every 20 s.
const fullAge, fullAgeUnnamed = time.Second, 15 * time.Second

// FullDestinations are the destinations that had reached the cap at the last count.
type FullDestinations struct {
	mu   sync.Mutex
	at   time.Time
	full []string
}

// Over returns the destinations that have reached a cap; 0 is no cap. Most messages have no
// destination, so one that names none reads the counts only in a process that has been sending for
// a while. If the counts cannot be read, no destination is full.
func (f *FullDestinations) Over(ctx context.Context, rdb redis.Cmdable, named bool, most int) []string {
	if most <= 0 {
		return nil
	}
	known, fresh := f.known(time.Now(), named)
	if fresh {
		return known
	}
	all, age, err := lastOwings(ctx, rdb)
	if err != nil {
		return known
	}
	if age.Abs() > staleOwings {
		all = nil
	}
	var full []string
	for to, o := range all {
		if o.Count >= int64(most) {
			full = append(full, to)
		}
	}
	slices.Sort(full)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full = full
	return full
}

// known returns the last counts, and whether they are recent enough. If not, the caller reads them.
// Meanwhile others use the last ones: no sender waits for another's call to Redis.
func (f *FullDestinations) known(now time.Time, named bool) (full []string, fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at.IsZero() && !named {
		f.at = now
	}
	age := now.Sub(f.at)
	if age < fullAge || !named && age < fullAgeUnnamed {
		return f.full, true
	}
	f.at = now
	return f.full, false
}
