package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
)

// NewTicket returns a random secret with which grant can be redeemed once, before it expires. It is
// for programs that cannot send a header, such as a browser's EventSource. Redis has the secret's
// hash only.
func (s *Store) NewTicket(ctx context.Context, grant string, life time.Duration) (ticket string, err error) {
	ticket = rand.Text()
	if err := s.rdb.SetEx(ctx, rediskey.Ticket(ticketHash(ticket)), grant, life).Err(); err != nil {
		return "", fmt.Errorf("store a ticket: %w", err)
	}
	return ticket, nil
}

// RedeemTicket returns a ticket's grant, and ends the ticket. ok is false if the ticket is unknown,
// has expired or was redeemed before. If the reply of Redis is lost, the ticket may be spent.
func (s *Store) RedeemTicket(ctx context.Context, ticket string) (grant string, ok bool, err error) {
	grant, err = s.rdb.GetDel(ctx, rediskey.Ticket(ticketHash(ticket))).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("redeem a ticket: %w", err)
	}
	return grant, true, nil
}

func ticketHash(ticket string) string {
	sum := sha256.Sum256([]byte(ticket))
	return hex.EncodeToString(sum[:])
}
