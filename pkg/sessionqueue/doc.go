// Package sessionqueue is Turnstile's protocol: per-session asynq queues whose
// messages are taken one turn at a time, by whoever holds the session's sentinel.
//
// A [Client] is the sender's side: Submit puts a message in and tells the
// workers, Wait and Follow tell what became of it. A [Consumer] is the owner's:
// it claims sessions, and its [Hold] makes the moves of a turn. Each move is one
// Lua script (lua/*.lua) that checks the holder's token and fence; docs/design.md
// tells how they work together.
//
// # Guarantees
//
//   - Only the holder of token and fence changes a turn's state. A move of a
//     holder that lost the session returns lockguard.ErrLost and writes nothing.
//   - Messages of a session are taken in the order of their enqueueing; retries,
//     crashes and drains put a message back to the head of the line.
//   - A message whose Submit returned without an error is in the queue, in the
//     archive, or its effect is in the transcript.
//   - A message's transcript entries and its ack are written together, once.
//   - Every move may be sent again after a lost reply.
//
// # Not guaranteed
//
//   - That an agent runs once: a crash redelivers. Its entries are written once.
//   - Anything that Redis itself loses: docs/guarantees.md.
package sessionqueue
