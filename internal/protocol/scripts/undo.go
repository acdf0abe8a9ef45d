// Code generated from ../lua/undo.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed undo.lua
var undoLua string

// Undo is the script of undo.lua.
var Undo = newMove[UndoArgs]("undo", undoLua, readUndo)

// UndoKeys are the KEYS of Undo.
func UndoKeys(k Keys, call string) []string {
	return []string{k.Sentinel(), k.Run(), k.Record(), k.Transcript(), k.Pending(), k.Archived(), k.Owed(), k.Outbox(), k.Deliveries(), k.Audit(), call}
}

// UndoArgs are the arguments of Undo.
type UndoArgs struct {
	Prefixes
	By       string   // who does it, '' if unknown: see audit
	Turn     string   // to undo
	ID       string   // of the task to enqueue, or ''
	Msg      string   // of the task
	SID      string   // the transcript's id
	Entries  int64    // how many the turn has, at most 10,000; 0: it left none
	Length   int64    // how many the transcript had when it was read, and
	Written  int64    // how many were written to it by then: run's entries, or 0 if these are of another transcript
	Unsaid   string   // run's field then, or ''
	Messages []string // task ids of the turn's messages
}

// Words are the arguments as ARGV has them.
func (a UndoArgs) Words() []any {
	return words([]any{a.Task, a.Prefix, a.By, a.Turn, a.ID, a.Msg, a.SID, a.Entries, a.Length, a.Written, a.Unsaid}, a.Messages)
}

// UndoResult is the result of Undo.
type UndoResult struct {
	Status  Status
	Removed int64
	Now     int64
}

func readUndo(l script.Result) (r UndoResult) {
	switch r.Status = Status(l.Text(0)); r.Status {
	case OK:
		r.Removed, r.Now = l.Int(1), l.Int(2)
	}
	return r
}
