package explore

import (
	"slices"
	"strings"
	"time"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/script"
)

// Fault is a fault of a process or of the database.
type Fault uint8

// The faults. Without faults every request is carried out once and gets its reply, and Redis's
// clock advances only when no process has a step to make.
const (
	Crash      Fault = 1 << iota // a process ends; one that loops restarts without memory
	LostCall                     // a request does not reach Redis, and its caller gets an error
	LostReply                    // it is carried out, and its caller gets an error
	Resend                       // it is carried out, and sent again; other steps may come between
	Expiry                       // a sentinel expires, and its owner does not notice
	ClockJump                    // Redis's clock jumps to the next deadline while processes have steps to make
	AllFaults  = Crash | LostCall | LostReply | Resend | Expiry | ClockJump
	NetFaults  = LostCall | LostReply | Resend
	OwnerFault = Crash | Expiry
)

// Configuration is a few processes to search, and the expectations.
type Configuration struct {
	Name    string
	Purpose string

	// Sessions are the keys of the sessions that the processes use.
	Sessions []string

	// Before are lives that run to their ends, one after the other, before the search.
	Before []func(*Life)

	Processes []Process

	// Kinds are the faults that may happen, Faults how many on one path.
	Kinds  Fault
	Faults int

	// Horizon is the age up to which a past time's age counts.
	Horizon time.Duration

	// Ordered are messages that must have their entries in the order in which they were enqueued.
	Ordered []string

	// Removed are messages that an operator may delete: they may be nowhere.
	Removed []string

	// Cleans lets the clock advance after the end of all messages, for processes that purge and
	// forget. When nothing is left to wait for, no key may be left.
	Cleans bool

	// Kept are the ages at which records and results are deleted, for Cleans.
	Kept time.Duration

	// Without are the names of checks to leave out, see checks.go.
	Without []string

	// Check is one more check, for this configuration only. It returns the violation, or "".
	Check func(View) string

	// Filter changes commands before they are sent, to put faults into Go's decisions.
	Filter func(name string, cmd []string) []string

	// Finished reports whether nothing is left to do, for liveness. Nil: no session has a message
	// that waits or runs.
	Finished func(View) bool

	// Most bounds the states of a search. 0: it ends when it has seen all.
	Most int

	// AtLeast is how many transitions the search makes in CI.
	AtLeast int

	// Depth bounds the steps of a path. 0: no bound.
	Depth int
}

// View is the content of a database.
type View struct {
	*snapshot
	told *told
}

// Told reports whether a process has reported a fact.
func (v View) Told(fact string) bool { return v.told.has(fact) }

// Facts are the reports of the processes.
func (v View) Facts() []string { return v.told.facts }

// Now is Redis's clock in ms.
func (v View) Now() int64 { return v.now }

// Has reports whether a key exists.
func (v View) Has(key string) bool { return v.has(key) }

// Field is a field of a hash, "" if there is none.
func (v View) Field(key, field string) string { return v.field(key, field) }

// Fields are the fields of a hash.
func (v View) Fields(key string) map[string]string { return v.fields(key) }

// Members are the elements of a list, a set or a sorted set.
func (v View) Members(key string) []string { return v.members(key) }

// Score is the score of a sorted set's member. ok is false if there is none.
func (v View) Score(key, member string) (score int64, ok bool) { return v.score(key, member) }

// Due reports whether a sorted set of ms has a member that is due.
func (v View) Due(key string) bool {
	scores := v.scores(key)
	return len(scores) > 0 && scores[0] <= v.now
}

// DueSeconds is Due for one of seconds.
func (v View) DueSeconds(key string) bool {
	scores := v.scores(key)
	return len(scores) > 0 && scores[0]*1000 <= v.now
}

// line are the keys of a session's messages that wait or run.
func line(k rediskey.Session) []string {
	return []string{k.Pending(), k.Active(), k.Scheduled(), k.Retry(), k.Stopped()}
}

// idle reports whether a session has no message that waits or runs, or is paused.
func (v View) idle(key string) bool {
	k := rediskey.For(key)
	return v.Has(k.Paused()) || !slices.ContainsFunc(line(k), v.Has)
}

// filter is a command after the configuration's Filter.
func (c *Configuration) filter(cmd []string) []string {
	if c.Filter == nil {
		return cmd
	}
	return c.Filter(CommandName(cmd), cmd)
}

// CommandName is a command's name in traces: in lower case, and for a script its move's name.
func CommandName(cmd []string) string {
	name := strings.ToLower(cmd[0])
	if name == "evalsha" || name == "eval" {
		hash := cmd[1]
		if name == "eval" {
			hash = sha(cmd[1])
		}
		if known, ok := script.BySHA(hash); ok {
			return known.Name
		}
		return "asynq"
	}
	return name
}

// finished reports whether nothing is left to do.
func (c *Configuration) finished(v View) bool {
	if c.Finished != nil {
		return c.Finished(v)
	}
	for _, s := range c.Sessions {
		if !v.idle(s) {
			return false
		}
	}
	return true
}

// next is the next time at which something happens by itself. 0: none.
func (c *Configuration) next(v View) int64 {
	var next int64
	at := func(ms int64) {
		if ms > v.now && (next == 0 || ms < next) {
			next = ms
		}
	}
	for _, index := range []string{rediskey.Owned, rediskey.Due, rediskey.Unlisted, rediskey.Outbox, rediskey.Ends, rediskey.Waits} {
		for _, ms := range v.scores(index) {
			at(ms)
		}
	}
	for _, e := range v.keys {
		if e.expires != 0 && (strings.HasPrefix(e.key, "turnstile:timer:") || strings.HasSuffix(e.key, ":sentinel")) {
			at(e.expires)
		}
	}
	for _, s := range c.Sessions {
		k := rediskey.For(s)
		for _, zset := range []string{k.Scheduled(), k.Retry(), k.Lease()} {
			for _, seconds := range v.scores(zset) {
				at(seconds * 1000)
			}
		}
		if hold, _, ok := strings.Cut(v.Field(k.Run(), "hold"), " "); ok {
			at(whole(hold))
		}
		for name, line := range v.Fields(k.Deliveries()) {
			if words := strings.Fields(line); strings.HasPrefix(name, "line ") && len(words) > 3 {
				at(whole(words[1])) // the end of its lease
				at(whole(words[3])) // the next attempt
			}
		}
		for _, id := range v.Members(k.Pending()) {
			quiet, _, _ := strings.Cut(v.Field(k.Task(id), "quiet"), " ")
			at(whole(quiet))
		}
		if !c.Cleans {
			continue
		}
		for _, seconds := range v.scores(k.Completed()) {
			at(seconds * 1000)
		}
		for _, seconds := range v.scores(k.Archived()) {
			at(seconds*1000 + c.Kept.Milliseconds())
		}
		for _, field := range []string{"updated_at", "created_at"} {
			at(whole(v.Field(k.Record(), field)) + c.Kept.Milliseconds())
		}
		at(whole(v.Field(k.Run(), "ended_at")) + c.Kept.Milliseconds())
	}
	if c.Cleans {
		for _, ms := range v.scores(rediskey.Sessions) {
			at(ms + c.Kept.Milliseconds())
		}
	}
	if next == 0 {
		return 0
	}
	return next + 1
}

// taskIDs are the IDs of a configuration's messages in a session.
func taskIDs(key string, ids []string) []string {
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = rediskey.TaskID(key, id)
	}
	return all
}
