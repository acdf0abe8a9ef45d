// Package scripts has the scripts of the session protocol, with Go types for their arguments and results.
//
// A script is the .lua file that Redis gets, byte by byte: SLOWLOG and MONITOR show its SHA-1, and
// sha1sum *.lua finds the file. All files but this one are generated from package lua, where the
// scripts are written.
package scripts

//go:generate go run ../lua/generate

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/script"
)

// Keys are a session's keys, by their names in the headers of the scripts.
type Keys struct {
	rediskey.Session
	transcript, day string
}

// KeysOf returns a session's keys. transcriptID is the transcript's ID, and now gives the day of
// asynq's counters.
func KeysOf(session, transcriptID string, now time.Time) Keys {
	return Keys{rediskey.For(session), transcriptID, now.UTC().Format(":2006-01-02")}
}

// WithTranscript returns the keys with another transcript.
func (k Keys) WithTranscript(transcriptID string) Keys {
	k.transcript = transcriptID
	return k
}

// Transcript is the key of the transcript.
func (k Keys) Transcript() string { return k.Session.Transcript(k.transcript) }

// ProcessedDay is the key of the day's counter of ended messages.
func (k Keys) ProcessedDay() string { return k.Processed() + k.day }

// FailedDay is the key of the day's counter of dead letters.
func (k Keys) FailedDay() string { return k.Failed() + k.day }

// Prefixes are the prefixes of a session's names.
type Prefixes struct {
	Task   string // its task hashes
	Prefix string // its task IDs and turn IDs
}

// PrefixesOf returns the prefixes of the session with a key.
func PrefixesOf(key string) Prefixes {
	return Prefixes{Task: rediskey.For(key).TaskPrefix(), Prefix: rediskey.IDPrefix(key)}
}

// Owner identifies an owner: the token of its claim, and the fencing token of its turn.
type Owner struct {
	Token string
	Fence int64
}

// Stream are the limits of a session's event stream, see append_event in lua/lib/events.lua.
type Stream struct {
	EventsCap  int64
	Short      int64 // bytes
	LargeBytes int64
}

// Args are the arguments of a script.
type Args interface{ Words() []any }

// Move is a script with the types of its arguments and of its result.
type Move[A Args, R any] struct {
	*script.Script
	read func(script.Result) R
}

func newMove[A Args, R any](name, source string, read func(script.Result) R) Move[A, R] {
	return Move[A, R]{script.New(name, source), read}
}

// Call returns a call of the script.
func (m Move[A, R]) Call(keys []string, args A) *script.Call {
	return &script.Call{Script: m.Script, Keys: keys, Args: args.Words()}
}

// Result reads the result of a call. Missing fields are zero.
func (m Move[A, R]) Result(call *script.Call) R { return m.read(call.Result) }

// Run calls the script once.
func (m Move[A, R]) Run(ctx context.Context, rdb script.Client, keys []string, args A) (R, error) {
	call := m.Call(keys, args)
	call.Run(ctx, rdb)
	return m.Result(call), call.Err
}

// Each calls the script n times in one round trip, see [script.Pipeline].
func (m Move[A, R]) Each(ctx context.Context, rdb redis.UniversalClient, n int, call func(i int) ([]string, A)) []*script.Call {
	calls := make([]*script.Call, n)
	for i := range calls {
		calls[i] = m.Call(call(i))
	}
	_ = script.Pipeline(ctx, rdb, calls, nil) // each call has its error
	return calls
}

// Flag returns a bool as a script reads it.
func Flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// words appends lists to the words of ARGV, each after its length.
func words(words []any, lists ...[]string) []any {
	for _, list := range lists {
		words = append(slices.Grow(words, len(list)+1), len(list))
		for _, word := range list {
			words = append(words, word)
		}
	}
	return words
}

func records[T any](list script.Result, read func(script.Result) T) []T {
	all := make([]T, len(list))
	for i := range list {
		all[i] = read(list.List(i))
	}
	return all
}

// rest returns the elements of a list from a place on.
func rest(list script.Result, from int) script.Result { return list[min(from, len(list)):] }
