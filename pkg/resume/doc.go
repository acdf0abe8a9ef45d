// Package resume reads and writes the record of a session's interrupted turns, and makes the note
// about them for the next turn's agent.
//
//	record, err := resume.Read(ctx, rdb, "agent:main:telegram:dm:42")
//	...
//	note := resume.Note(resume.Facts{Record: record, Freshness: time.Hour, History: history})
//
// A session has one record:
//
//   - The resume mark: the last turn was interrupted, why and when. The next turn continues in
//     the same transcript and begins with a note.
//   - The counter: how many turns were interrupted since the last one that finished.
//   - The suspension: the next message begins another transcript, without a note. A suspended
//     session's mark has no effect.
//
// # Who writes it
//
// The owner's moves write it, in their own scripts (lua/lib/interrupt.lua of
// turnstile/internal/protocol) and under the turn's fencing token:
//
//   - A drain marks a turn before it interrupts it. A claim marks the turn of an owner that died.
//     Both raise the counter by one, at most once for each fencing token, unless the turn had progress
//     or a deploy hands it on.
//   - TURNSTILE_STUCK_LIMIT interruptions in a row suspend the session.
//   - A turn that finishes deletes the record. /new, and a claim that begins another transcript,
//     delete the mark and the suspension.
//
// A worker reads it with Read, and makes its agent's note with Note. Other programs write it with Mark,
// Clear and Suspend: for example a gateway that killed a turn. These do not change the counter.
//
// # Guarantees
//
//   - Each call is one script: no reader sees a mark without its reason and time.
//   - No call creates a record for a session that never had a turn. Reads change nothing.
//   - Times and ages are by Redis' clock. An age is never negative.
//   - A field that is missing or cannot be read has its zero value.
//   - Note is a pure function of its facts. The note has `[System note:` once.
//
// # Not guaranteed
//
//   - Ownership: Mark and Suspend do not check who owns the session. The end of a running turn
//     deletes the mark and the suspension.
//   - Durability beyond Redis': with AOF everysec a crash of Redis may lose a second.
//   - The same result twice: if Clear is sent again after a lost reply, it returns false.
//   - Mark and Suspend on a full Redis: it refuses them with its error. Clear works.
//
// The record is the hash turnstile:{session:S}:resume, without a TTL. docs/internals/keys.md lists its fields.
package resume
