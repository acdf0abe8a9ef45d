// Code generated from ../lua/owing.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed owing.lua
var owingLua string

// Owing is the script of owing.lua.
var Owing = newMove[OwingArgs]("owing", owingLua, readOwing)

// OwingKeys are the KEYS of Owing.
func OwingKeys(k Keys) []string {
	return []string{k.Owed(), k.Outbox(), k.Deliveries()}
}

// OwingArgs are the arguments of Owing.
type OwingArgs struct {
	Cursor string // '0', or that of the last call
}

// Words are the arguments as ARGV has them.
func (a OwingArgs) Words() []any {
	return []any{a.Cursor}
}

// OwingResult is the result of Owing.
type OwingResult struct {
	Cursor string
	Lines  []Line
}

func readOwing(l script.Result) (r OwingResult) {
	r.Cursor, r.Lines = l.Text(0), records(l.List(1), readLine)
	return r
}
