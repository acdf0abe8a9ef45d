package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"turnstile/internal/protocol"
)

// NewTicket returns a random secret that stands for grant, once and for a while. It is for a
// program that can send no header, such as a browser's EventSource. Redis has the secret's hash
// only.
func (s *Store) NewTicket(ctx context.Context, grant string, life time.Duration) (ticket string, err error) {
	ticket = rand.Text()
	if err := protocol.StoreTicket(ctx, s.rdb, ticketHash(ticket), grant, life); err != nil {
		return "", fmt.Errorf("store a ticket: %w", err)
	}
	return ticket, nil
}

// RedeemTicket returns what a ticket stands for, and ends it. ok is false if the ticket is unknown,
// has expired or was redeemed before. If the reply of Redis is lost, the ticket may be spent.
func (s *Store) RedeemTicket(ctx context.Context, ticket string) (grant string, ok bool, err error) {
	grant, ok, err = protocol.TakeTicket(ctx, s.rdb, ticketHash(ticket))
	if err != nil {
		return "", false, fmt.Errorf("redeem a ticket: %w", err)
	}
	return grant, ok, nil
}

func ticketHash(ticket string) string {
	sum := sha256.Sum256([]byte(ticket))
	return hex.EncodeToString(sum[:])
}
