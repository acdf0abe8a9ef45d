package script

import (
	_ "embed"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Script is a Lua script. Its hash is computed when it is first used. A guardian is the worker's
// own program, started for each turn, and uses no script.
type Script struct{ load func() *loaded }

// loaded is a script with its hash. hash and source are boxed once for all calls.
type loaded struct {
	text         Text
	hash, source any
}

// Text is a script as it is sent to Redis.
type Text struct {
	Name   string // of the move: "claim", "finish"
	Source string
	hash   string
}

// Hash is the script's SHA-1, as MONITOR and SLOWLOG show it.
func (t Text) Hash() string { return t.hash }

// all holds the scripts of the packages that the program imports. Packages add theirs during
// initialization, which runs in one goroutine, so it needs no lock.
var all []*Script

// New makes a script of a name and its text. Call it only for package-level variables.
func New(name, source string) *Script {
	s := &Script{load: sync.OnceValue(func() *loaded {
		hash := redis.NewScript(source).Hash()
		return &loaded{Text{name, source, hash}, hash, source}
	})}
	all = append(all, s)
	return s
}

// Text is the script's text and name.
func (s *Script) Text() Text { return s.load().text }

// Hash is the script's SHA-1.
func (s *Script) Hash() string { return s.load().text.hash }

var bySHA = sync.OnceValue(func() map[string]Text {
	found := make(map[string]Text, len(all))
	for _, text := range All() {
		found[text.hash] = text
	}
	return found
})

// BySHA finds a script by its SHA-1. ok is false for a script of another program.
func BySHA(sha string) (t Text, ok bool) {
	t, ok = bySHA()[sha]
	return t, ok
}

// All returns the scripts of the packages that the program imports.
func All() []Text {
	list := make([]Text, len(all))
	for i, s := range all {
		list[i] = s.Text()
	}
	return list
}

//go:embed prelude.lua
var prelude string

// Prelude returns the Lua text that starts every script of Turnstile: now_ms(), int(n),
// next_fence(stored, now) and owns(sentinel_key, token). It ends with a newline.
func Prelude() string { return prelude }
