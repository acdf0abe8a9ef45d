// Code generated from ../lua/renew.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed renew.lua
var renewLua string

// Renew is the script of renew.lua.
var Renew = newMove[RenewArgs]("renew", renewLua, readRenew)

// RenewKeys are the KEYS of Renew.
func RenewKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Pending(), k.Lease()}
}

// RenewArgs are the arguments of Renew.
type RenewArgs struct {
	Owner
	TTL int64 // the sentinel's, ms
}

// Words are the arguments as ARGV has them.
func (a RenewArgs) Words() []any {
	return []any{a.Token, a.Fence, a.TTL}
}

// RenewResult is the result of Renew.
type RenewResult struct {
	Status   Status
	Fence    int64
	Request  string
	Waiting  int64
	Steer    bool
	Question int64
	Decision string
	Now      int64
	By       string
}

func readRenew(l script.Result) (r RenewResult) {
	switch r.Status = Status(l.Text(0)); r.Status {
	case OK:
		r.Fence, r.Request, r.Waiting, r.Steer, r.Question, r.Decision, r.Now, r.By = l.Int(1), l.Text(2), l.Int(3), l.Bool(4), l.Int(5), l.Text(6), l.Int(7), l.Text(8)
	}
	return r
}
