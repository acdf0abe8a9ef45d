package board

import (
	"context"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/admin"
)

// Patterns are the patterns of all pages and actions.
func (b *Board) Patterns() []string { return b.patterns }

// ReadLine reads the waiting messages of a page.
func (b *Board) ReadLine(ctx context.Context, view gateway.SessionView) ([]admin.QueuedMessage, error) {
	return b.readLine(ctx, view)
}
