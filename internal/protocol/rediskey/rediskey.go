// Package rediskey names every Redis key that Turnstile touches, asynq's included. It is the
// schema; docs/internals/keys.md describes each key.
//
// Every key of one session carries the hash tag {session:KEY}, so that one script may touch them
// all on a Redis Cluster as well. The indexes have no common tag: they are single keys, and every
// command that updates them is safe to repeat.
package rediskey

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// queuePrefix starts the asynq queue name of every session.
const queuePrefix = "session:"

// Indexes and global names.
const (
	Ready    = "turnstile:ready"    // ZSET session key -> ms: to be claimed now
	Due      = "turnstile:due"      // ZSET session key -> ms: becomes ready then
	Owned    = "turnstile:owned"    // ZSET session key -> ms: reap checks it then
	Sessions = "turnstile:sessions" // ZSET session key -> ms of its last activity

	Outbox       = "turnstile:outbox"       // ZSET session key -> ms: a deliverer looks at it then
	Destinations = "turnstile:destinations" // HASH destination -> JSON: paused or disabled

	Routes = "turnstile:routes" // STRING the routes by which all gateways choose destinations

	Names     = "turnstile:names"     // ZSET session key -> 0: those of Sessions, in the order of their keys
	Attention = "turnstile:attention" // ZSET session key -> ms: since then a person may have to look at it

	Temporary = "turnstile:temporary" // ZSET session key -> ms: a gateway checks then whether to erase it

	Waiting = "turnstile:waiting" // HASH of counts over all sessions, as of the last jobs: messages that wait, deliveries, parked turns

	Processes = "turnstile:processes" // ZSET JSON of a living worker or gateway, with its settings -> ms until which it counts

	Scan = "turnstile:scan" // HASH node -> cursor: progress of the search for sessions that no index lists

	Unlisted = "turnstile:unlisted" // ZSET session key -> ms: then the worker checks whether to list its queue again

	AllQueues    = "asynq:queues"  // SET of queue names that asynqmon lists
	AsynqCancel  = "asynq:cancel"  // PUBSUB channel of asynqmon's Cancel: a task ID
	Servers      = "asynq:servers" // ZSET key of a server's heartbeat -> unix seconds of its end
	asynqServer  = Servers + ":{"
	ticketPrefix = "turnstile:ticket:"
	timerPrefix  = "turnstile:timer:"
	tokensPrefix = "turnstile:tokens:"
	signalPrefix = "turnstile:signal:"
)

// Who is next among sessions, if workers sort them: see lua/lib/fleet.lua. All keys lie in the slot of Ready.
const (
	fleet   = "turnstile:{" + Ready + "}:"
	Sorted  = fleet + "sorted"  // ZSET session key -> ms since which it waits: those of Ready that were sorted
	Places  = fleet + "places"  // HASH session key -> agent and limits: of those
	Queues  = fleet + "queue:"  // prefix, an agent: ZSET session key -> tag
	Held    = fleet + "held:"   // prefix, a limit: ZSET session key -> tag
	Bells   = fleet + "bell:"   // prefix, an agent: ZSET that wakes a worker
	Waits   = fleet + "waits"   // ZSET limit that holds sessions back -> ms: dispatch looks at them then
	Holds   = fleet + "holds"   // HASH session key -> token and limits: of those that run and count for a limit
	Ends    = fleet + "ends"    // ZSET session key -> ms: end of the hold
	Running = fleet + "running" // HASH limit -> how many hold it
	Limits  = fleet + "limits"  // HASH limit -> its cap
	Fair    = fleet + "fair"    // ZSET "agent tenant" -> tag of its last session; agent -> of the last one that was taken
	Tenants = fleet + "tenants" // STRING the tenants, as JSON
	Pools   = fleet + "pools"   // STRING that lasts while a worker lives that runs some of its agents only
)

// Layout is the version of the keys: field v of a session's record.
const Layout = "1"

// OutboxSignals names the channel with the keys of sessions that have a new record in their outbox.
const OutboxSignals = "outbox"

// Ticket is the record of the ticket with this hash.
func Ticket(hash string) string { return ticketPrefix + hash }

// Swept is when the last complete sweep began, in ms.
const Swept = timerPrefix + "swept"

// Timer is the short-lived key that lets one worker at a time run a periodic job.
func Timer(job string) string { return timerPrefix + job }

// Tokens is the HASH input, output: the tokens that agents have reported on a day, in UTC.
func Tokens(day time.Time) string { return tokensPrefix + day.UTC().Format(time.DateOnly) }

// Signal is the PUBSUB channel on which a worker receives requests for its turns.
func Signal(worker string) string { return signalPrefix + worker }

// IsServer reports whether a key is the heartbeat of an asynq.Server, which rewrites it every few
// seconds.
func IsServer(key string) bool { return strings.HasPrefix(key, asynqServer) }

// Queue is the asynq queue of a session.
func Queue(session string) string { return queuePrefix + session }

// SessionOf returns the session key of a queue name. ok is false for a queue that belongs to no
// session.
func SessionOf(queue string) (session string, ok bool) {
	return strings.CutPrefix(queue, queuePrefix)
}

// Session holds the key names of one session. Make one with For.
type Session struct{ own, asynq string }

// For names the keys of a session.
func For(session string) Session {
	tag := "{" + queuePrefix + session + "}:"
	return Session{own: "turnstile:" + tag, asynq: "asynq:" + tag}
}

// Turnstile's own keys.

func (s Session) Sentinel() string  { return s.own + "sentinel" }  // STRING token, with a TTL
func (s Session) Run() string       { return s.own + "run" }       // HASH the turn, outlives its owner
func (s Session) Record() string    { return s.own + "session" }   // HASH the session's record
func (s Session) Followups() string { return s.own + "followups" } // HASH message ID -> JSON
func (s Session) Resume() string    { return s.own + "resume" }    // HASH mark, interruptions, suspension
func (s Session) Partial() string   { return s.own + "partial" }   // of builds before layout 2: erase and forget delete it
func (s Session) Journal() string   { return s.own + "journal" }   // HASH the running turn's entries and steps so far
func (s Session) Events() string    { return s.own + "events" }    // STREAM the events
func (s Session) State() string     { return s.own + "state" }     // STRING the agent state

func (s Session) Audit() string       { return s.own + "audit" }       // LIST of JSON: who has decided, stopped or changed something
func (s Session) Owed() string        { return s.own + "owed" }        // HASH message ID -> route
func (s Session) Outbox() string      { return s.own + "outbox" }      // ZSET "destination sequence" of each record to deliver
func (s Session) Deliveries() string  { return s.own + "deliveries" }  // HASH texts of records, and the state of each destination's queue
func (s Session) Undelivered() string { return s.own + "undelivered" } // ZSET "destination sequence" of records that were given up -> ms

func (s Session) Stopped() string { return s.own + "stopped" } // LIST of task IDs that a /stop took from the queue and has not archived yet

// Call is the STRING with the result of a call, by the call's name, for its repetitions. It has a
// TTL.
func (s Session) Call(name string) string { return s.own + "call:" + name }

// Idem is the hash of the message with an ID that a sender chose.
func (s Session) Idem(id string) string { return s.own + "idem:" + id }

// Transcript is the LIST of entries of one transcript.
func (s Session) Transcript(id string) string { return s.TranscriptPrefix() + id }

// TranscriptPrefix plus a transcript ID is a transcript's key.
func (s Session) TranscriptPrefix() string { return s.own + "transcript:" }

// Any is a pattern of SCAN that finds every key of the session, asynq's too.
func (s Session) Any() string { return "*" + strings.TrimPrefix(s.asynq, "asynq:") + "*" }

// AnySession is a pattern of SCAN that finds at least one key of every session, but no task:
// there may be many of those.
const AnySession = "*:{" + queuePrefix + "*}:[acprs]*"

// Parse returns the session of a key, and the key's name within it.
func Parse(key string) (session, name string, ok bool) {
	_, rest, ok := strings.Cut(key, ":{"+queuePrefix)
	if !ok {
		return "", "", false
	}
	session, name, ok = strings.Cut(rest, "}:")
	return session, name, ok
}

// asynq's keys, pinned by the contract tests of internal/protocol.

func (s Session) Pending() string   { return s.asynq + "pending" }   // LIST, oldest at the right
func (s Session) Active() string    { return s.asynq + "active" }    // LIST, their turn runs
func (s Session) Lease() string     { return s.asynq + "lease" }     // ZSET ID -> unix seconds
func (s Session) Paused() string    { return s.asynq + "paused" }    // STRING; while it exists nobody may claim
func (s Session) Scheduled() string { return s.asynq + "scheduled" } // ZSET ID -> unix seconds
func (s Session) Retry() string     { return s.asynq + "retry" }     // ZSET ID -> unix seconds
func (s Session) Archived() string  { return s.asynq + "archived" }  // ZSET ID -> unix seconds
func (s Session) Completed() string { return s.asynq + "completed" } // ZSET ID -> unix seconds of expiry
func (s Session) Processed() string { return s.asynq + "processed" } // STRING counter; with :YYYY-MM-DD a day's
func (s Session) Failed() string    { return s.asynq + "failed" }    // STRING counter; with :YYYY-MM-DD a day's

// Task is the HASH of one task.
func (s Session) Task(id string) string { return s.TaskPrefix() + id }

// TaskPrefix plus a task ID is a task's key.
func (s Session) TaskPrefix() string { return s.asynq + "t:" }

// Lock holds the key names of one lock of pkg/lockguard. They share the hash tag {NAME}. No
// lock's name starts with "session:", because sessions have their own sentinel and run under
// {session:KEY}.
type Lock struct{ own string }

// ForLock names the keys of a lock.
func ForLock(name string) Lock { return Lock{own: "turnstile:{" + name + "}:"} }

func (l Lock) Sentinel() string { return l.own + "sentinel" } // STRING token, with a TTL
func (l Lock) Run() string      { return l.own + "run" }      // STRING owner and fencing token; outlives the claim
func (l Lock) Waiters() string  { return l.own + "waiters" }  // ZSET token -> place in the queue
func (l Lock) Waiting() string  { return l.own + "waiting" }  // HASH token -> the waiter's registration
func (l Lock) Released() string { return l.own + "released" } // STRING token that released last, for the rest of its TTL

// Grants is the PUBSUB channel on which the waiters of one process are notified that they have a
// lock.
func Grants(guard string) string { return "turnstile:grants:" + guard }

// IDPrefix starts every asynq task ID and turn ID of a session: 8 hex digits of the key's hash
// and a dash. asynqmon's Cancel publishes a bare task ID to every worker, so the ID must identify
// its session.
func IDPrefix(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:4]) + "-"
}

// TaskID is the asynq task ID of a message.
func TaskID(key, messageID string) string { return IDPrefix(key) + messageID }
