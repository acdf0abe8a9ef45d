// Package recovery finds sessions that can be claimed without a worker knowing it: their owner,
// claimer or sender died, they became due, or a program other than Turnstile stored a message.
package recovery
