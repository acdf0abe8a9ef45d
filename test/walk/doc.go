// Package walk holds docs/architecture.md's walk to the code: the way of one message from
// cmd/enqueue to the agent and back, function by function. The test checks that the
// functions exist; `make walk` sends one message through a build with coverage and checks
// that it came through each of them.
package walk
