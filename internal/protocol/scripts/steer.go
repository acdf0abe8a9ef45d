// Code generated from ../lua/steer.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed steer.lua
var steerLua string

// Steer is the script of steer.lua.
var Steer = newMove[SteerArgs]("steer", steerLua, readSteer)

// SteerKeys are the KEYS of Steer.
func SteerKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Followups(), k.Pending(), k.Active()}
}

// SteerArgs are the arguments of Steer.
type SteerArgs struct {
	Prefixes
	Owner
	Longest int64    // how many bytes one task's msg may have
	TTL     int64    // the sentinel's, ms
	Most    int64    // messages of a turn
	Room    int64    // bytes of their tasks
	Known   []string // ids of the turn's tasks that the owner knows of
}

// Words are the arguments as ARGV has them.
func (a SteerArgs) Words() []any {
	return words([]any{a.Task, a.Prefix, a.Token, a.Fence, a.Longest, a.TTL, a.Most, a.Room}, a.Known)
}

// SteerResult is the result of Steer.
type SteerResult struct {
	Status   Status
	Messages []Message
	More     bool
}

func readSteer(l script.Result) (r SteerResult) {
	switch r.Status = Status(l.Text(0)); r.Status {
	case OK:
		r.Messages, r.More = records(l.List(1), readMessage), l.Bool(2)
	}
	return r
}
