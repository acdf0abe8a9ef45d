// Package script names Turnstile's Lua scripts. A server shows a script by its SHA-1
// only; whoever watches one, or replaces a script in a test, looks it up here.
package script

import (
	"sync"

	"github.com/redis/go-redis/v9"
)

// Script is a Lua script with its name.
type Script struct {
	*redis.Script
	Name   string // of the move: "claim", "finish"
	Source string
}

// all make the scripts. Packages add theirs when they are initialized, one after the
// other, so nothing guards it.
var all []func() Script

// New is a script that is put together when it is first used, and remembered. A
// guardian is the worker's program once more, one for each turn, and uses none of them.
// Call it for package-level variables only.
func New(name string, source func() string) func() *redis.Script {
	made := sync.OnceValue(func() Script {
		text := source()
		return Script{redis.NewScript(text), name, text}
	})
	all = append(all, made)
	return func() *redis.Script { return made().Script }
}

var bySHA = sync.OnceValue(func() map[string]Script {
	found := make(map[string]Script, len(all))
	for _, s := range All() {
		found[s.Hash()] = s
	}
	return found
})

// BySHA finds a script by its SHA-1, as MONITOR and SLOWLOG show it. ok is false for
// somebody else's.
func BySHA(sha string) (s Script, ok bool) {
	s, ok = bySHA()[sha]
	return s, ok
}

// All are the scripts of the packages that the program imports.
func All() []Script {
	list := make([]Script, len(all))
	for i, made := range all {
		list[i] = made()
	}
	return list
}
