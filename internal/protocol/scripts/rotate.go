// Code generated from ../lua/rotate.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed rotate.lua
var rotateLua string

// Rotate is the script of rotate.lua.
var Rotate = newMove[RotateArgs]("rotate", rotateLua, readRotate)

// RotateKeys are the KEYS of Rotate.
func RotateKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Record(), k.Resume(), k.Audit()}
}

// RotateArgs are the arguments of Rotate.
type RotateArgs struct {
	By       string // who does it, '' if unknown: see audit
	FreshSID string // the new transcript id
	SID      string // the transcript id that it replaces, or '' for any
	Deadline int64  // do nothing after this ms: the sender has given up
	Agent    string // the agent of the new transcript; '': the same
}

// Words are the arguments as ARGV has them.
func (a RotateArgs) Words() []any {
	return []any{a.By, a.FreshSID, a.SID, a.Deadline, a.Agent}
}

// RotateResult is the result of Rotate.
type RotateResult struct {
	SID     string
	Changed int64
	Wake    bool
}

func readRotate(l script.Result) (r RotateResult) {
	r.SID, r.Changed, r.Wake = l.Text(0), l.Int(1), l.Bool(2)
	return r
}
