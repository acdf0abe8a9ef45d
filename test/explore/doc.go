// Package explore is a model checker for the protocol: it runs the real Lua scripts and the real Go
// code, and tries every order of the steps of a few processes.
//
// A [Process] is a program that calls internal/protocol or asynq. It runs until its next request to
// Redis, which is one step. The steps of all others and faults come between two steps of a process: see
// [Fault]. The database is an embedded one without a network. Its state is saved and restored between
// steps. A [Search] goes breadth first, so that its findings have the fewest steps, and visits every
// state once. docs/internals/proof.md lists the checks.
//
// # Limits
//
// States are compared in a canonical form, see canon.go:
//
//   - Tokens, nonces and transcript IDs are named in the order in which they appear.
//   - A time or fence ahead of Redis's clock counts by its distance. One in the past counts by its
//     rank among all of the state, unless it is younger than Configuration.Horizon. So an older age
//     does not count.
//   - Of the event stream, asynq's statistics and PUBLISH only the existence counts: no script
//     reads them. Signals are always lost here; renewals report the requests.
//
// The clock of a process stands still within a life, except in a [Life.Pause]. Redis's clock
// advances between steps. No decision compares the two, and the search would show if one did. Redis
// executes one command after the other and loses nothing. The goroutines of a process are not
// interleaved: the tests of pkg/worker and the race detector cover those.
package explore
