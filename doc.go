// Package turnstile runs AI agents one turn at a time per chat session, across any number
// of worker processes, and loses no message.
//
// A [Client] is the sender's side. Submit stores a message and wakes the workers; Wait and
// Follow tell what became of it; Stop, Undo, Answer and the others are what slash commands
// do. Package turnstile/pkg/admin has the operators' calls.
//
// # Guarantees
//
//   - Exclusive: a session has one owner at a time, and one turn.
//   - In order: messages of a session are taken in the order in which they were stored.
//     Retries, crashes and drains put a message back at the head of the line.
//   - Nothing lost: a message whose Submit returned without an error is in the queue, in
//     the archive, or its effect is in the transcript.
//   - At-least-once execution, exactly-once transcript: an agent may run again after a
//     crash; the entries of a message and its acknowledgement are written once, together.
//
// # Not guaranteed
//
//   - That an agent runs once. It gets a fencing token and the turn's id, by which it can
//     make its side effects idempotent.
//   - Anything that Redis itself loses: docs/guarantees.md.
//
// # What a wait costs
//
// A Wait or Follow keeps one connection of the client's pool, on which it hears of an event
// when it happens. Together the waits of a Client keep at most half of the pool (PoolSize;
// on a Cluster, of each node). The others share one poller, which looks at their streams in
// pipelines: every 20 ms, or 5,000 streams a second where there are more than 100. So any
// number of waits may share a Client with Submit. Make one Client for each redis client.
package turnstile
