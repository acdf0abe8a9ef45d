// Package deliveries has the moves of outcomes on their way to destinations: what a session owes, its lines of
// deliveries that one deliverer at a time takes, and the state of a destination. Package outbox makes the
// deliveries.
package deliveries
