// Code generated from ../lua/take.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed take.lua
var takeLua string

// Take is the script of take.lua.
var Take = newMove[TakeArgs]("take", takeLua, readTake)

// TakeKeys are the KEYS of Take.
func TakeKeys(k Keys) []string {
	return []string{k.Owed(), k.Outbox(), k.Deliveries(), k.Undelivered()}
}

// TakeArgs are the arguments of Take.
type TakeArgs struct {
	Prefixes
	Token      string   // of these leases
	Lease      int64    // for how long, ms
	Most       int64    // records, at most
	Bytes      int64    // of their texts, at most; the first may have more
	UnknownAge int64    // the age at which a record for an unknown destination is given up, ms
	Known      []string // the destinations that the caller knows
	Ages       []string // of each: the age at which a record is given up, ms
	Paused     []string // of each: '1' if nothing may be delivered now
}

// Words are the arguments as ARGV has them.
func (a TakeArgs) Words() []any {
	return words([]any{a.Task, a.Prefix, a.Token, a.Lease, a.Most, a.Bytes, a.UnknownAge}, a.Known, a.Ages, a.Paused)
}

// TakeResult is the result of Take.
type TakeResult struct {
	Now     int64
	At      int64
	Unknown int64
	Last    int64
	Forged  script.Result
	Records []Record
}

func readTake(l script.Result) (r TakeResult) {
	r.Now, r.At, r.Unknown, r.Last, r.Forged, r.Records = l.Int(0), l.Int(1), l.Int(2), l.Int(3), l.List(4), records(l.List(5), readRecord)
	return r
}
