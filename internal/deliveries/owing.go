package deliveries

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/boundedjson"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/rediskey"
	"turnstile/internal/script"
)

// owingField is the field of rediskey.Waiting with what all destinations were owed at the last count.
const owingField = "owing"

// owingScans bounds the calls that count one session's records, at 1,000 in each.
const owingScans = 100

// DestinationOwing is what sessions owe a destination.
type DestinationOwing struct {
	Count  int64 `json:"n"`                // outcomes that are owed, and records that are stored
	Oldest int64 `json:"oldest,omitempty"` // when the oldest of these records was stored, ms; 0: there is none
}

// Owings are what sessions owe destinations, by their names.
type Owings map[string]DestinationOwing

// add adds what one session owes.
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

// Count adds what these sessions owe. The error joins those of single sessions, which are left out.
// lua/owing.lua.
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

// lastOwings also returns the counts' age. Senders may write the key: what cannot be read is none.
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
		return nil, 0, nil //nolint:nilerr // somebody has overwritten it; the next count heals it
	}
	return all, now.Val().Sub(time.UnixMilli(stored.Int("at"))), nil
}

// staleOwings is the age of counts that no longer hold: no worker counts any more, while gateways may
// have delivered since.
const staleOwings = time.Minute

// How old a sender's counts may be: of a message that names its destination, and of one that may go to
// its session's. Workers count every 20 s.
const fullAge, fullAgeUnnamed = time.Second, 15 * time.Second

// FullDestinations are those to which a sender sends nothing more, as of the last count.
type FullDestinations struct {
	mu   sync.Mutex
	at   time.Time
	full []string
}

// Over returns the destinations that have reached a cap; 0: there is none. Most messages have no
// destination, so one that names none reads the counts only in a process that sends for longer. A
// sender that cannot read them knows none.
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

// known returns what the last count said, and whether that will do. If not, the caller is to read the
// counts. Meanwhile others go by the last ones: a sender must not wait for another's call to Redis.
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
