// Code generated from ../lua/purge.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed purge.lua
var purgeLua string

// Purge is the script of purge.lua.
var Purge = newMove[PurgeArgs]("purge", purgeLua, readPurge)

// PurgeKeys are the KEYS of Purge.
func PurgeKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Events(), k.Pending(), k.Active(), k.Scheduled(), k.Retry(), k.Completed(), k.Archived()}
}

// PurgeArgs are the arguments of Purge.
type PurgeArgs struct {
	Task       string // prefix of the session's task hashes
	Batch      int64  // how many at a time
	ArchiveTTL int64  // age at which an archived task goes, seconds
	Quiet      int64  // age of an idle session's last event at which its events go, ms
	EventsCap  int64  // see append_event
}

// Words are the arguments as ARGV has them.
func (a PurgeArgs) Words() []any {
	return []any{a.Task, a.Batch, a.ArchiveTTL, a.Quiet, a.EventsCap}
}

// PurgeResult is the result of Purge.
type PurgeResult struct {
	Deleted int64
	More    bool
}

func readPurge(l script.Result) (r PurgeResult) {
	r.Deleted, r.More = l.Int(0), l.Bool(1)
	return r
}
