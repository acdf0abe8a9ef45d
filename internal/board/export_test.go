package board

// Patterns are the patterns of all pages and actions.
func (b *Board) Patterns() []string { return b.patterns }
