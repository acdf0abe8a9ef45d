// Package resume is what is known of a session's interrupted turns, and the note that
// tells the agent of it.
//
//	record, err := resume.Read(ctx, rdb, "agent:main:telegram:dm:42")
//	...
//	note := resume.Note(resume.Facts{Record: record, Freshness: time.Hour, History: history})
//
// A session has one record:
//
//   - The mark: the last turn was interrupted, why, and when. The next turn goes on in the
//     same transcript and begins with a note.
//   - The counter of interruptions: turns interrupted since the last one that finished.
//   - The suspension: the next message begins another transcript, without a note. It
//     outweighs a mark.
//
// # Who writes it
//
// The scripts of the turn's own moves (turnstile/internal/protocol, the file cut.lua), in
// the same script as the rest of the move and under the turn's fencing token:
//
//   - A drain marks a turn before it interrupts it. A claim marks the turn of an owner that
//     died. Both count it: the counter rises by one, at most once per fence.
//   - At STUCK_LIMIT interruptions in a row the session is suspended.
//   - A turn that finishes deletes the record. A new conversation (/new) and a claim that
//     begins another transcript delete the mark and the suspension.
//
// Programs beside the worker write it by Mark, Clear and Suspend, for instance a gateway
// that knows that it killed a turn. They leave the counter alone.
//
// # Guarantees
//
//   - Each call is one script: nobody sees a mark without its reason and time.
//   - No call creates a record for a session that never had a turn. Reading changes
//     nothing.
//   - Times and ages are by Redis' clock. An age is never below 0.
//   - A field that is missing or cannot be read has its zero value.
//   - The note is a pure function of its facts. It has `[System note:` once.
//
// # Not guaranteed
//
//   - Ownership: Mark and Suspend do not ask who owns the session. What they wrote while a
//     turn runs is deleted when that turn finishes.
//   - Durability beyond Redis': with AOF everysec a crash of Redis may lose a second.
//   - The same result of a repetition: Clear that is sent again after a lost reply returns
//     false.
//   - A snapshot: List reads each record when it comes to it.
//   - A full Redis refuses Mark and Suspend with its error, and Clear works.
//
// # In Redis
//
// turnstile:{session:S}:resume is a hash without a TTL:
//
//	pending        1: marked
//	reason         why: restart_timeout, shutdown_timeout, lease_lost, crash, or a caller's
//	marked_at      ms since 1970
//	interruptions  the counter
//	fence          of the turn that was counted last
//	suspended      1: suspended
//	carried        the counter to begin with in the next transcript
//
// Who adds to it also sets special in the session's run record. By that the fast path of a
// turn's end knows that there is a record to delete.
package resume
