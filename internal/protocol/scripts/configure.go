// Code generated from ../lua/configure.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed configure.lua
var configureLua string

// Configure is the script of configure.lua.
var Configure = newMove[ConfigureArgs]("configure", configureLua, readConfigure)

// ConfigureKeys are the KEYS of Configure.
func ConfigureKeys(k Keys) []string {
	return []string{k.Record(), k.Audit()}
}

// ConfigureArgs are the arguments of Configure.
type ConfigureArgs struct {
	By      string // who does it, '' if unknown: see audit
	Setting string // its field in the record
	Value   string // '': delete it, so that the default applies
}

// Words are the arguments as ARGV has them.
func (a ConfigureArgs) Words() []any {
	return []any{a.By, a.Setting, a.Value}
}

// ConfigureResult is the result of Configure.
type ConfigureResult struct {
	Status Status
}

func readConfigure(l script.Result) (r ConfigureResult) {
	r.Status = Status(l.Text(0))
	return r
}
