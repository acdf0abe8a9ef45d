// Code generated from ../lua/redrive.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed redrive.lua
var redriveLua string

// Redrive is the script of redrive.lua.
var Redrive = newMove[RedriveArgs]("redrive", redriveLua, readRedrive)

// RedriveKeys are the KEYS of Redrive.
func RedriveKeys(k Keys, call string) []string {
	return []string{k.Owed(), k.Outbox(), k.Deliveries(), k.Undelivered(), call}
}

// RedriveArgs are the arguments of Redrive.
type RedriveArgs struct {
	Task string // prefix of the session's task hashes
	To   string // destination, '': all
	Drop bool   // delete them
	Most int64  // how many at most
}

// Words are the arguments as ARGV has them.
func (a RedriveArgs) Words() []any {
	return []any{a.Task, a.To, Flag(a.Drop), a.Most}
}

// RedriveResult is the result of Redrive.
type RedriveResult struct {
	N    int64
	More bool
}

func readRedrive(l script.Result) (r RedriveResult) {
	r.N, r.More = l.Int(0), l.Bool(1)
	return r
}
