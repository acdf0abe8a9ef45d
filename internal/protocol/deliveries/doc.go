// Package deliveries has the moves of outcomes on their way to destinations: a session's
// undelivered outcomes, its queue for each destination, which one deliverer at a time leases, and
// the state of a destination. Package outbox makes the deliveries.
package deliveries
