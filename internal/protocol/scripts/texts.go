// Code generated from ../lua/texts.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed texts.lua
var textsLua string

// Texts is the script of texts.lua.
var Texts = newMove[TextsArgs]("texts", textsLua, readTexts)

// TextsArgs are the arguments of Texts.
type TextsArgs struct {
	Room   int64    // how many bytes it reads. The last text may exceed that: it reads at least one, however long
	Wanted []string // for each text its hash ('': the follow-ups), its field, and how many of its bytes are wanted
}

// Words are the arguments as ARGV has them.
func (a TextsArgs) Words() []any {
	return words([]any{a.Room}, a.Wanted)
}

// TextsResult is the result of Texts.
type TextsResult struct {
	Texts script.Result
}

func readTexts(l script.Result) (r TextsResult) {
	r.Texts = rest(l, 0)
	return r
}
