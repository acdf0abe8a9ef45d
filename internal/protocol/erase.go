package protocol

import (
	"context"
	"time"

	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
)

// Erase deletes a batch of a session's messages. The last batch deletes all other keys as well.
// lua/erase.lua.
type Erase struct {
	Session string
	Fence   string   // fencing token of the last turn when the keys were listed; "": there was none
	Batch   int      // the most messages of a batch
	Others  []string // further keys to delete, not among Keys
	Last    bool     // the session has no other key left
	Keep    bool     // erase nothing while an outcome is undelivered

	// Unused, if not 0, erases nothing unless no message waits and the last turn ended so long ago.
	Unused time.Duration
}

// Kept is why an Erase erased nothing.
type Kept struct {
	Owed, Stored int   // owed: outcomes of messages that have not ended, and undelivered ones
	At           int64 // used: when to try again, ms; 0: unknown
}

// Do returns gone, held (the session has an owner), changed (a turn has run since the keys were
// listed), owed (see Keep), used (see Unused) or batch (call it again).
func (e Erase) Do(ctx context.Context, rdb script.Client) (state string, why Kept, err error) {
	k := scripts.KeysOf(e.Session, "", time.Now())
	r, err := scripts.Erase.Run(ctx, rdb, scripts.EraseKeys(k, e.Others...), scripts.EraseArgs{
		Prefixes: scripts.PrefixesOf(e.Session), Idem: k.Idem(""), Fence: e.Fence, Size: int64(e.Batch), Last: e.Last, Keep: e.Keep, Unused: e.Unused.Milliseconds(),
	})
	return string(r.Status), Kept{int(r.Promised), int(r.Stored), r.At}, err
}

// Forget deletes the record of a session that was not used for ttl, and reports whether it did.
// lua/forget.lua.
func Forget(ctx context.Context, rdb script.Client, sessionKey, transcriptID string, now time.Time, ttl time.Duration) (gone bool, err error) {
	r, err := scripts.Forget.Run(ctx, rdb, scripts.ForgetKeys(scripts.KeysOf(sessionKey, transcriptID, now)), scripts.ForgetArgs{Age: ttl.Milliseconds()})
	return r.Gone, err
}

// Keys returns a session's keys, without the tasks.
func Keys(session, transcriptID string, now time.Time) []string {
	return scripts.EraseKeys(scripts.KeysOf(session, transcriptID, now))
}
