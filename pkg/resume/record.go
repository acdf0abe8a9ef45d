package resume

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
)

//go:embed read.lua
var readLua string

var readScript = script.New("resume read", func() string { return script.Prelude() + readLua }).Redis

// Why a turn was cut off. Any other text is a reason as well.
const (
	ReasonRestart  = "restart_timeout"  // its worker restarted
	ReasonShutdown = "shutdown_timeout" // its worker shut down
	ReasonCrash    = "crash"            // its worker died
)

// Record is a session's resume record. The zero value is that of a session whose
// last turn ended well.
type Record struct {
	Pending       bool          // marked: the last turn was cut off
	Reason        string        // why
	MarkedAt      time.Time     // when, by Redis' clock; zero if unknown
	Age           time.Duration // of the mark when it was read, by Redis' clock; 0 if unknown
	Interruptions int           // cut-off turns since the last finished one
	Fence         int64         // of the turn that was counted last; 0 if unknown
	Suspended     bool          // the next message begins another transcript
}

// Fresh reports whether the record has a mark that the next turn is to be told
// of: one no older than limit, in a session that is not suspended. A limit of 0
// means any age. A mark of unknown age is fresh, as nothing says that it is old.
func (r Record) Fresh(limit time.Duration) bool {
	return r.Pending && !r.Suspended && (limit <= 0 || r.Age <= limit)
}

// Read reads a session's record. Missing fields read as zero, and so does a time
// that is none.
func Read(ctx context.Context, rdb redis.Cmdable, session string) (Record, error) {
	return record(session, readEach(ctx, rdb, []string{session})[0])
}

// readEach reads the records of sessions in one round trip, two where a server
// does not know the script yet.
func readEach(ctx context.Context, rdb redis.Cmdable, sessions []string) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(sessions))
	keys := func(i int) []string { return []string{rediskey.For(sessions[i]).Resume()} }
	// A pipeline's error is also that of the commands it befell.
	_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range cmds {
			cmds[i] = readScript().EvalSha(ctx, p, keys(i))
		}
		return nil
	})
	_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // sends nothing if it stays empty
		for i, cmd := range cmds {
			if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
				cmds[i] = readScript().Eval(ctx, p, keys(i))
			}
		}
		return nil
	})
	return cmds
}

// record is what read.lua answered: Redis' time and the hash.
func record(session string, cmd *redis.Cmd) (Record, error) {
	answer, err := cmd.Slice()
	if err != nil {
		return Record{}, fmt.Errorf("read resume record of %s: %w", session, err)
	}
	now, _ := answer[0].(int64)
	pairs, _ := answer[1].([]any)
	fields := make(map[string]string, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		fields[name], _ = pairs[i+1].(string)
	}
	return parse(fields, now), nil
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

// positive reads a number above 0; anything else is 0.
func positive(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
