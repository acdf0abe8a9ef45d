// Package walk compares docs/architecture.md's walk with the code: the way of one message from
// cmd/enqueue to the agent and back, function by function. The test checks that the functions
// exist. `make walk` sends one message through a build with coverage and checks that it passes each
// of them.
package walk
