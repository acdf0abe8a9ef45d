// Code generated from ../lua/pause.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed pause.lua
var pauseLua string

// Pause is the script of pause.lua.
var Pause = newMove[PauseArgs]("pause", pauseLua, readPause)

// PauseArgs are the arguments of Pause.
type PauseArgs struct {
	To       string
	Disabled bool  // it rejects all deliveries
	Wait     int64 // it fails: until the next attempt, ms; 0 and not disabled: it works
	Why      string
}

// Words are the arguments as ARGV has them.
func (a PauseArgs) Words() []any {
	return []any{a.To, Flag(a.Disabled), a.Wait, a.Why}
}

// PauseResult is the result of Pause.
type PauseResult struct {
	Stored bool
}

func readPause(l script.Result) (r PauseResult) {
	r.Stored = l.Bool(0)
	return r
}
