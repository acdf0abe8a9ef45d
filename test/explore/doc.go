// Package explore is a model checker for the protocol: it takes the Lua scripts and
// the Go code as they are, and tries every order of the steps of a few processes.
//
// A [Process] is a program that calls internal/protocol or asynq. It runs until its
// next request to Redis, which is one step; between two steps of a process those of
// all others may come, and faults: see [Fault]. The database is the embedded one,
// without a network, whose state is taken and put back between steps. A [Search]
// goes breadth first, so that what it finds has the fewest steps, and looks at every
// state once. docs/proof.md says what is checked.
//
// # What is left out
//
// States are compared in a canonical form, see canon.go:
//
//   - Tokens, nonces and session ids are named in the order in which they appear.
//   - A time or fence that lies ahead of Redis' clock counts by its distance, one in
//     the past by its rank among all that the state has, unless it is younger than
//     Configuration.Horizon. So how long ago something was is not told apart, beyond
//     what a configuration asks for.
//   - Of the event stream, asynq's statistics and PUBLISH only that they are there: no
//     script reads them. Lost signals are the rule here; renewals tell of what was asked.
//
// The clocks of the processes stand still within a life, but for a [Life.Pause]; Redis'
// goes on between steps: no decision compares the two, and this would show if one did. Redis executes one
// command after the other and loses nothing. A process' own goroutines are not
// interleaved: package internal/engine's tests and the race detector are for that.
package explore
