package script

import (
	"sync"

	"github.com/redis/go-redis/v9"
)

// Script is a Lua script. Its text is composed when it is first used: a guardian is the
// worker's program once more, one for each turn, and uses none of them.
type Script struct{ load func() *loaded }

// loaded is a composed script. hash and source are boxed once for all calls.
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

// Hash is the SHA-1 by which MONITOR and SLOWLOG show the script.
func (t Text) Hash() string { return t.hash }

// all are the scripts of the packages that the program imports. Packages add theirs
// while they are initialized, one after the other, so nothing guards it.
var all []*Script

// New makes a script of a name and a function that composes its text. Call it for
// package-level variables only.
func New(name string, source func() string) *Script {
	s := &Script{load: sync.OnceValue(func() *loaded {
		text := source()
		hash := redis.NewScript(text).Hash()
		return &loaded{Text{name, text, hash}, hash, text}
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

// BySHA finds a script by its SHA-1. ok is false for another program's.
func BySHA(sha string) (t Text, ok bool) {
	t, ok = bySHA()[sha]
	return t, ok
}

// All are the scripts of the packages that the program imports.
func All() []Text {
	list := make([]Text, len(all))
	for i, s := range all {
		list[i] = s.Text()
	}
	return list
}
