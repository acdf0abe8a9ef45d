// Package store has the Redis calls of gateways and the board that turnstile.Client and admin.Client
// lack: tickets, temporary sessions, the events of all sessions, and the day's tokens.
package store

import "github.com/redis/go-redis/v9"

// Store makes the calls. It is safe for concurrent use and has nothing to close.
type Store struct{ rdb redis.UniversalClient }

// New returns a store. It shares rdb, which the caller closes.
func New(rdb redis.UniversalClient) *Store { return &Store{rdb} }
