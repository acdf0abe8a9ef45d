// Code generated from ../lua/index_due.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed index_due.lua
var indexDueLua string

// IndexDue is the script of index_due.lua.
var IndexDue = newMove[IndexDueArgs]("index_due", indexDueLua, readIndexDue)

// IndexDueArgs are the arguments of IndexDue.
type IndexDueArgs struct {
	Batch int64 // how many at most
}

// Words are the arguments as ARGV has them.
func (a IndexDueArgs) Words() []any {
	return []any{a.Batch}
}

// IndexDueResult is the result of IndexDue.
type IndexDueResult struct {
	Now  int64
	Next int64
	Due  script.Result
}

func readIndexDue(l script.Result) (r IndexDueResult) {
	r.Now, r.Next, r.Due = l.Int(0), l.Int(1), l.List(2)
	return r
}
