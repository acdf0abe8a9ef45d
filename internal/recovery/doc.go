// Package recovery finds sessions that can be claimed and that no worker was notified of: their
// owner or claimer died, their sender died half-way, their time has come, or a program other than
// Turnstile stored a message.
package recovery
