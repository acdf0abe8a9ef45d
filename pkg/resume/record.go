package resume

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/script"
)

//go:embed read.lua
var readLua string

var readScript = script.New("resume read", script.Prelude()+readLua)

// Reasons of an interruption. Other texts are allowed too.
const (
	ReasonRestart  = "restart_timeout"  // its worker restarted
	ReasonShutdown = "shutdown_timeout" // its worker shut down
	ReasonCrash    = "crash"            // its worker died, or has not reported yet that it lives

	// ReasonLeaseLost: its worker lost the lease and lives, for example because Redis was away.
	ReasonLeaseLost = "lease_lost"
)

// Record is a session's resume record. It is zero if the session's last turn ended well.
type Record struct {
	Pending       bool          // marked: the last turn was interrupted
	Reason        string        // why
	MarkedAt      time.Time     // when, by Redis' clock; zero if unknown
	Age           time.Duration // age of the mark when it was read, by Redis' clock; 0 if unknown
	Interruptions int           // interruptions that count, since the last finished turn
	Fence         int64         // fencing token of the turn that was counted last; 0 if unknown
	Suspended     bool          // the next message begins another transcript
}

// Fresh reports whether the record has a mark for the next turn's note: one no older than limit, in
// a session that is not suspended. A limit of 0 means any age. A mark of unknown age is fresh.
func (r Record) Fresh(limit time.Duration) bool {
	return r.Pending && !r.Suspended && (limit <= 0 || r.Age <= limit)
}

// Read reads a session's record. A field that is missing or cannot be read is zero.
func Read(ctx context.Context, rdb redis.UniversalClient, session string) (Record, error) {
	r, err := readScript.Run(ctx, rdb, []string{rediskey.For(session).Resume()})
	if err != nil {
		return Record{}, fmt.Errorf("read resume record of %s: %w", session, err)
	}
	f := r.Named("now", "record")
	pairs := f.List("record")
	fields := make(map[string]string, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		fields[pairs.Text(i)] = pairs.Text(i + 1)
	}
	return parse(fields, f.Int("now")), nil
}

func parse(fields map[string]string, now int64) Record {
	r := Record{
		Pending:       fields["pending"] == "1",
		Reason:        fields["reason"],
		Interruptions: int(positive(fields["interruptions"])),
		Fence:         positive(fields["fence"]),
		Suspended:     fields["suspended"] == "1",
	}
	if ms := positive(fields["marked_at"]); ms > 0 {
		r.MarkedAt = time.UnixMilli(ms)
		r.Age = time.Duration(max(now-ms, 0)) * time.Millisecond
	}
	return r
}

// positive reads a number above 0. Anything else is 0.
func positive(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
