// Package walk compares docs/internals/architecture.md's walk with the code: the way of one message from
// cmd/enqueue to the agent and back, function by function. The test checks that the functions
// exist. `make walk` sends one message with the built programs and coverage. It checks that the
// message passes each of the functions, and compares the page's numbers.
package walk
