// Package isolation attacks the worker and another session's agent from an agent, with each
// isolation. Its table has what is stopped; docs/security.md prints it.
package isolation
