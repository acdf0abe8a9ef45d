// Code generated from ../lua/title.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed title.lua
var titleLua string

// Title is the script of title.lua.
var Title = newMove[TitleArgs]("title", titleLua, readTitle)

// TitleKeys are the KEYS of Title.
func TitleKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Record()}
}

// TitleArgs are the arguments of Title.
type TitleArgs struct {
	Owner
	Title string // '': delete it
}

// Words are the arguments as ARGV has them.
func (a TitleArgs) Words() []any {
	return []any{a.Token, a.Fence, a.Title}
}

// TitleResult is the result of Title.
type TitleResult struct {
	Status Status
}

func readTitle(l script.Result) (r TitleResult) {
	r.Status = Status(l.Text(0))
	return r
}
