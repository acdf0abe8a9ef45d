// Package connections has no code: its tests run the built worker and enqueue, and check that both
// connect to a Redis, warn and fail alike.
package connections
