package board

// Patterns are those of all pages and actions.
func (b *Board) Patterns() []string { return b.patterns }
