// Code generated from ../lua/unclaim.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed unclaim.lua
var unclaimLua string

// Unclaim is the script of unclaim.lua.
var Unclaim = newMove[UnclaimArgs]("unclaim", unclaimLua, readUnclaim)

// UnclaimKeys are the KEYS of Unclaim.
func UnclaimKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Pending(), k.Lease(), k.Scheduled(), k.Retry()}
}

// UnclaimArgs are the arguments of Unclaim.
type UnclaimArgs struct {
	Task  string // prefix of the session's task hashes
	Token string // of the claim
	Gives bool   // the owner gives the turn back, and ends it itself if that was requested
}

// Words are the arguments as ARGV has them.
func (a UnclaimArgs) Words() []any {
	return []any{a.Task, a.Token, Flag(a.Gives)}
}

// UnclaimResult is the result of Unclaim.
type UnclaimResult struct {
	Status  Status
	At      int64
	Now     int64
	Request string
}

func readUnclaim(l script.Result) (r UnclaimResult) {
	switch r.Status = Status(l.Text(0)); r.Status {
	case Released:
		r.At, r.Now = l.Int(1), l.Int(2)
	case Requested:
		r.Request = l.Text(1)
	}
	return r
}
