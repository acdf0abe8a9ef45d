// Package script names Turnstile's Lua scripts. A server shows a script by its SHA-1
// only; whoever watches one, or replaces a script in a test, looks it up here.
package script

import "github.com/redis/go-redis/v9"

// Script is a Lua script with its name.
type Script struct {
	*redis.Script
	Name   string // of the move: "claim", "finish"
	Source string
}

// all are the scripts by their SHA-1. Packages add theirs when they are initialized,
// one after the other, so nothing guards it.
var all = map[string]Script{}

// New makes a script and remembers it. Call it for package-level variables only.
func New(name, source string) *redis.Script {
	s := redis.NewScript(source)
	all[s.Hash()] = Script{s, name, source}
	return s
}

// BySHA finds a script by its SHA-1, as MONITOR and SLOWLOG show it. ok is false for
// somebody else's.
func BySHA(sha string) (s Script, ok bool) {
	s, ok = all[sha]
	return s, ok
}

// All are the scripts of the packages that the program imports, in no order.
func All() []Script {
	list := make([]Script, 0, len(all))
	for _, s := range all {
		list = append(list, s)
	}
	return list
}
