package protocol

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"turnstile/internal/protocol/lua"
	"turnstile/internal/script"
)

// move is a script with its KEYS, ARGV and results by name, as the header of its file in lua
// declares them.
type move struct {
	*script.Script
	name string
	made func() composed
}

// composed is a script with the parts of its header that calls need.
type composed struct {
	lua.Script
	keys []int // the place of each of KEYS among the session's; -1: the next one that the call adds
	rest bool  // the last of KEYS stands for all further keys of the call
}

// moves are all moves, by name.
var moves = map[string]*move{}

// named returns the move of the script with that name in lua.
func named(name string) *move {
	m := &move{name: name, made: sync.OnceValue(func() composed {
		s, err := lua.Compose(name)
		if err != nil {
			panic(err) // the files are embedded: the first test fails
		}
		c := composed{Script: s}
		for _, key := range s.Keys {
			if strings.HasSuffix(key, "...") {
				c.rest = true
			} else {
				c.keys = append(c.keys, keyAt(key))
			}
		}
		return c
	})}
	m.Script = script.New(name, func() string { return m.made().Source })
	moves[name] = m
	return m
}

// keys returns the KEYS of a call: those of the session that the header names, and the call's own.
func (m *move) keys(session []string, own ...string) []string {
	c := m.made()
	keys := make([]string, 0, len(c.keys)+len(own))
	for _, at := range c.keys {
		if at < 0 {
			keys, own = append(keys, own[0]), own[1:]
		} else {
			keys = append(keys, session[at])
		}
	}
	if c.rest {
		keys = append(keys, own...)
	}
	return keys
}

// args returns the ARGV of a call, from pairs of name and value in any order. It panics if a name
// is missing or unknown.
func (m *move) args(pairs ...any) []any { return m.words(m.made().Args, pairs) }

// each returns the ARGV that one session adds to the shared args of a batch.
func (m *move) each(pairs ...any) []any { return m.words(m.made().Each, pairs) }

func (m *move) words(declared []lua.Arg, pairs []any) []any {
	if len(pairs) != 2*len(declared) {
		panic(fmt.Sprintf("%s: %d names and values for %d arguments", m.name, len(pairs), len(declared)))
	}
	words := make([]any, 0, len(declared)+8)
	for i, arg := range declared {
		at := 2 * i
		if pairs[at] != arg.Name {
			at = 0
			for at < len(pairs) && pairs[at] != arg.Name {
				at += 2
			}
		}
		if at >= len(pairs) {
			panic(m.name + ": no argument " + arg.Name)
		}
		switch value := pairs[at+1].(type) {
		case bool:
			words = append(words, flag(value))
		case []string:
			words = slices.Grow(append(words, len(value)), len(value))
			for _, v := range value {
				words = append(words, v)
			}
		default:
			words = append(words, value)
		}
	}
	return words
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// run calls the script once.
func (m *move) run(ctx context.Context, rdb script.Client, keys []string, args []any) (returned, error) {
	call := script.Call{Script: m.Script, Keys: keys, Args: args}
	call.Run(ctx, rdb)
	r := m.returned(call.Result)
	r.unsure = call.Unsure
	return r, call.Err
}

// returned is a script's result, read by the names of its header. A field that the script left out
// is zero.
type returned struct {
	script.Result
	move   *move
	fields []string // names of the elements of Result, starting at from
	from   int
	unsure bool // see script.Call
}

func (m *move) returned(list script.Result) returned {
	r := returned{Result: list, move: m}
	results := m.made().Results
	if whole, ok := results["result"]; ok {
		r.fields = whole.Fields
	} else if of, ok := results[r.status()]; ok {
		r.fields, r.from = of.Fields, 1
	}
	return r
}

// status returns the first word of a result that has one.
func (r returned) status() string { return r.Text(0) }

// at returns the place of a field, or a place beyond the end if the result has no such field.
func (r returned) at(name string) int {
	if i := slices.Index(r.fields, name); i >= 0 {
		return r.from + i
	}
	return len(r.Result)
}

func (r returned) text(name string) string        { return r.Text(r.at(name)) }
func (r returned) int(name string) int64          { return r.Int(r.at(name)) }
func (r returned) is(name string) bool            { return r.Bool(r.at(name)) }
func (r returned) ms(name string) time.Duration   { return r.Millis(r.at(name)) }
func (r returned) list(name string) script.Result { return r.List(r.at(name)) }

// record reads a table within the result, of a kind that the header declares.
func (r returned) record(kind string, list script.Result) returned {
	return returned{Result: list, move: r.move, fields: r.move.made().Results[kind].Fields}
}

// records reads the tables in a field.
func (r returned) records(name, kind string) []returned {
	list := r.list(name)
	all := make([]returned, len(list))
	for i := range list {
		all[i] = r.record(kind, list.List(i))
	}
	return all
}

// behind returns what follows the named fields.
func (r returned) behind() script.Result {
	if n := r.from + len(r.fields); n < len(r.Result) {
		return r.Result[n:]
	}
	return nil
}
