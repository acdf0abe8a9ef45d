package deliveries

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
	"turnstile/internal/redis/script"
)

// Failing is a destination that has refused a session's next delivery, or could not be reached.
type Failing struct {
	Destination string
	Count       int       // outcomes that the session owes it
	Since       time.Time // when the next delivery was stored
	Error       string    // of the last attempt
}

// failingMost bounds the destinations of a session that ReadFailing reads.
const failingMost = 10

// ReadFailing returns the failing destinations of each session, by name. Sessions without stored records cost
// one command.
func ReadFailing(ctx context.Context, rdb redis.UniversalClient, sessions []string) ([][]Failing, error) {
	found := make([][]Failing, len(sessions))
	last, rest := make([]string, len(sessions)), make([]int, len(sessions))
	for i := range rest {
		last[i], rest[i] = "-", i
	}
	for n := 0; len(rest) > 0 && n < failingMost; n++ { // the first record of each next destination
		firsts := make([]*redis.StringSliceCmd, len(rest))
		err := piped(ctx, rdb, func(p redis.Pipeliner) {
			for i, at := range rest {
				firsts[i] = p.ZRangeArgs(ctx, redis.ZRangeArgs{Key: rediskey.For(sessions[at]).Outbox(), ByLex: true, Start: last[at], Stop: "+", Count: 1})
			}
		})
		if err != nil {
			return nil, err
		}
		var more []int
		for i, at := range rest {
			for _, member := range firsts[i].Val() {
				to, sequence, _ := strings.Cut(member, " ")
				last[at], more = "("+to+" \xff", append(more, at)
				found[at] = append(found[at], Failing{Destination: to, Since: time.UnixMilli(script.Number(sequence)).UTC()})
			}
		}
		rest = more
	}
	lines := make([][]*redis.SliceCmd, len(sessions))
	err := piped(ctx, rdb, func(p redis.Pipeliner) {
		for i, s := range sessions {
			for _, f := range found[i] {
				lines[i] = append(lines[i], p.HMGet(ctx, rediskey.For(s).Deliveries(), "line "+f.Destination, "n "+f.Destination))
			}
		}
	})
	if err != nil {
		return nil, err
	}
	for i, all := range found {
		found[i] = nil
		for j, f := range all {
			stored := script.HashFields(lines[i][j])
			var attempts int
			if attempts, _, f.Error = ParseLine(stored.Text("line " + f.Destination)); attempts > 0 {
				f.Count, _ = strconv.Atoi(stored.Text("n " + f.Destination))
				found[i] = append(found[i], f)
			}
		}
	}
	return found, nil
}

// piped sends commands, and returns an error that concerns more than one session.
func piped(ctx context.Context, rdb redis.UniversalClient, add func(redis.Pipeliner)) error {
	cmds, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		add(p)
		return nil
	})
	return redisconn.Failure(cmds, err)
}

// ParseLine returns the state of a queue: how often the first record was tried, when it is tried again, and why
// the last attempt failed. text is "token till attempts at unsure error".
func ParseLine(text string) (attempts int, next time.Time, why string) {
	words := strings.SplitN(text, " ", 6)
	if len(words) < 6 {
		return 0, next, ""
	}
	if at := script.Number(words[3]); at > 0 {
		next = time.UnixMilli(at).UTC()
	}
	return int(script.Number(words[2])), next, words[5]
}

// NeedAttention enters a session with a failed delivery into the index of those that a person may have to look at.
// The first failure's time stays. A lost call does no harm: the next attempt makes it again. now is Redis' clock in ms.
func NeedAttention(ctx context.Context, rdb redis.Cmdable, now int64, session string) error {
	return rdb.ZAddNX(ctx, rediskey.Attention, redis.Z{Score: float64(now), Member: session}).Err()
}
