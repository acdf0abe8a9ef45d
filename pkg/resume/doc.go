// Package resume keeps what is known of a session's turns that were cut off, and
// tells the agent of it.
//
//	marked, err := resume.Mark(ctx, rdb, "agent:main:telegram:dm:42", resume.ReasonShutdown)
//	...
//	note := resume.Note(resume.Facts{Record: record, Freshness: time.Hour, History: history})
//	agent.Run(resume.Prepend(note, message.Text))
//
// A session has one record, with three things in it:
//
//   - the mark: the last turn was cut off, why, and when. The next turn goes on
//     in the same transcript and begins with a note.
//   - the counter of interruptions: turns that were cut off since the last one
//     that finished.
//   - the suspension: the next message begins another transcript, with no note.
//     It outweighs a mark.
//
// # Who writes it
//
// What happens to a turn is written by the turn's own scripts in
// turnstile/internal/protocol, together with the rest of the move and under its
// token and fence: a drain marks and counts the turn that it is about to
// interrupt, a claim the one whose worker died; a turn that finishes deletes the
// record. This package has what is asked from outside of a turn (Mark, Clear,
// Suspend) and what everybody reads (Read, List).
//
// One rule for the counter: whoever cuts a turn off raises it by one, at most
// once per fence, and only a finished turn resets it. Mark and Clear leave it
// alone, and so do failures, which asynq counts.
//
// # What is guaranteed
//
//   - Each call is one script: nobody sees a mark without its reason and time.
//   - Unknown sessions stay unknown: no call creates a record for a session that
//     never had a turn.
//   - Reading changes nothing.
//   - Times and ages are Redis' own, whatever the clocks of its clients say.
//   - What cannot be read does not spoil the rest: a missing field reads as its
//     zero value, and so does a time that is none.
//   - The note is a pure function of its facts. It holds `[System note:` once,
//     and the text behind it is the user's, byte for byte.
//
// # What is not
//
//   - No call asks who owns the session. What Mark or Suspend wrote while a turn
//     runs is gone when that turn finishes, with the rest of the record.
//   - A record is as durable as its Redis: with AOF `everysec` a crash of Redis
//     may lose the last second.
//   - Mark and Suspend are refused by a full Redis, with its error, and change
//     nothing then. Clear works.
//   - A call may arrive twice when its answer was lost. Mark and Suspend answer
//     the same again; Clear answers false the second time.
//   - After a failover a mark's age is off by what the clocks of the two Redis
//     servers differ. It is never below 0.
//   - List is no snapshot: it sees what a session's record was when it came by.
//   - The note asks. What an agent does about it is the agent's affair, as is
//     what it did outside before it was cut off.
//
// # In Redis
//
// The record of session S is one hash without a TTL. It goes with the rest of a
// forgotten session.
//
//	turnstile:{session:S}:resume
//	  pending        1: marked
//	  reason         restart_timeout, shutdown_timeout, crash, or the caller's
//	  marked_at      ms since 1970
//	  interruptions  the counter
//	  fence          of the turn that was counted last
//	  suspended      1: suspended
//
// Mark and Suspend set `special` in the session's run record as well: by that the
// end of a turn knows that there is something to clear.
package resume
