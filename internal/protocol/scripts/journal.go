// Code generated from ../lua/journal.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed journal.lua
var journalLua string

// Journal is the script of journal.lua.
var Journal = newMove[JournalArgs]("journal", journalLua, readJournal)

// JournalKeys are the KEYS of Journal.
func JournalKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Record(), k.Events(), k.Journal()}
}

// JournalArgs are the arguments of Journal.
type JournalArgs struct {
	Owner
	Stream
	Task       string // prefix of the session's task hashes
	TTL        int64  // the sentinel's, ms
	JournalTTL int64  // ms
	Number     string // of this call within the run, from 1
	Origin     string // new: the message gets it if it has none yet
	First      string // id of the turn's first task
	Batch      string // number of the events' batch within the turn, see emit
	Events     int64  // how many of the texts are events, JSON. The rest are fields of the journal and their values, at most 500 and 4 MiB, or one
	Texts      []string
}

// Words are the arguments as ARGV has them.
func (a JournalArgs) Words() []any {
	return words([]any{a.Task, a.Token, a.Fence, a.EventsCap, a.Short, a.LargeBytes, a.TTL, a.JournalTTL, a.Number, a.Origin, a.First, a.Batch, a.Events}, a.Texts)
}

// JournalResult is the result of Journal.
type JournalResult struct {
	Status Status
	Origin string
}

func readJournal(l script.Result) (r JournalResult) {
	switch r.Status = Status(l.Text(0)); r.Status {
	case OK:
		r.Origin = l.Text(1)
	}
	return r
}
