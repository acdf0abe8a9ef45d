// Code generated from ../lua/checkpoint.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/script"
)

//go:embed checkpoint.lua
var checkpointLua string

// Checkpoint is the script of checkpoint.lua.
var Checkpoint = newMove[CheckpointArgs]("checkpoint", checkpointLua, readCheckpoint)

// CheckpointKeys are the KEYS of Checkpoint.
func CheckpointKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Record(), k.Partial()}
}

// CheckpointArgs are the arguments of Checkpoint.
type CheckpointArgs struct {
	Owner
	TTL        int64  // the sentinel's, ms
	Content    string // the partial, JSON
	PartialTTL int64  // ms
}

// Words are the arguments as ARGV has them.
func (a CheckpointArgs) Words() []any {
	return []any{a.Token, a.Fence, a.TTL, a.Content, a.PartialTTL}
}

// CheckpointResult is the result of Checkpoint.
type CheckpointResult struct {
	Status Status
}

func readCheckpoint(l script.Result) (r CheckpointResult) {
	r.Status = Status(l.Text(0))
	return r
}
