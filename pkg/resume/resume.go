// Package resume keeps what is known of a session's interrupted turns: the
// resume mark, the counter of interruptions in a row, and the suspension that
// ends a row of them.
//
// A crash is marked by the claim that finds the dead turn, in the claim's own
// script; a finished turn clears everything in the finish script. This package
// reads the record.
package resume

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// ReasonCrash marks a turn whose worker died.
const ReasonCrash = "crash"

// Record is a session's resume record. The zero value is that of a session whose
// last turn ended well.
type Record struct {
	Pending       bool      // the last turn was cut off
	Reason        string    // why
	MarkedAt      time.Time // when, by Redis' clock; zero if unknown
	Interruptions int       // cut-off turns since the last finished one
	Suspended     bool      // the next message begins another transcript
}

// Read reads a session's record. Missing fields read as zero, and so does a time
// that is none.
func Read(ctx context.Context, rdb redis.Cmdable, session string) (Record, error) {
	f, err := rdb.HGetAll(ctx, rediskey.For(session).Resume()).Result()
	if err != nil {
		return Record{}, fmt.Errorf("read resume record of %s: %w", session, err)
	}
	return parse(f), nil
}

func parse(f map[string]string) Record {
	r := Record{Pending: f["pending"] == "1", Reason: f["reason"], Suspended: f["suspended"] == "1"}
	if ms, err := strconv.ParseInt(f["marked_at"], 10, 64); err == nil && ms > 0 {
		r.MarkedAt = time.UnixMilli(ms)
	}
	if n, err := strconv.Atoi(f["interruptions"]); err == nil && n > 0 {
		r.Interruptions = n
	}
	return r
}
