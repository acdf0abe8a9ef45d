// Package turnstile runs AI agents one turn at a time per chat session, across any number of worker
// processes, and loses no message.
//
// [Client.Session] returns a handle on a session. Send stores a message, Wait returns how it ended,
// Events follows it. Stop, Undo, Decide and the others are the slash commands of a chat. Package
// turnstile/pkg/worker runs an agent's turns, and turnstile/pkg/program makes a program of that,
// with all features of cmd/worker. Package turnstile/pkg/admin lists sessions, reruns dead letters
// and erases sessions.
//
// # Guarantees
//
//   - Exclusive: a session has one owner and runs one turn at a time.
//   - In order: a session's messages run in the order in which they were stored. Retries, crashes
//     and drains put a message back at the head of the queue.
//   - Nothing lost: after a Send without an error the message waits, runs, is a dead letter, or is
//     in the transcript.
//   - At-least-once execution, exactly-once transcript: after a crash an agent may run again for
//     the same message, but the transcript has its entries once. One script appends a turn's
//     entries and acknowledges its messages.
//
// # Not guaranteed
//
//   - That an agent runs once for a message. Protect its side effects: pass the turn's fencing
//     token along, and let the receiver reject a token lower than the highest it has seen.
//   - Writes that Redis itself loses. See docs/guarantees.md.
//
// # Cost of a wait
//
// A Wait or a loop over Events blocks on a connection of the redis client's pool and gets an event at once. The
// waits of one Client use at most half of the pool (PoolSize; on a Cluster, of each node's).
// Further waits share one poller, which reads each stream every 20 ms, but no more than 5,000
// streams a second. So any number of waits can share a Client with Send. Make one Client for each
// redis client.
package turnstile
