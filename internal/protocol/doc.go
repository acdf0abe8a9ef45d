// Package protocol is Turnstile's protocol: per-session asynq queues whose
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
// # What a wait costs
//
// A Wait or Follow keeps one connection of the client's pool, on which it hears of an
// event when it happens: one command a second. The waits of one Client keep half of the
// pool at most (PoolSize, on a Cluster of each node). Those beyond it share one goroutine,
// which looks at their streams in pipelines: each every 20 ms, or all of them 5,000 times
// a second where there are more than 100, so 1,000 waits hear of an event in 0.2 s. Every
// wait looks at its message once in 5 s. So any number of waits may share a Client with
// Submit and the commands; make one Client per redis client, for each has a bound of its own.
//
// # Not guaranteed
//
//   - That an agent runs once: a crash redelivers. Its entries are written once.
//   - Anything that Redis itself loses: docs/guarantees.md.
package protocol
