// Package adapters has no code: its tests run every agent adapter in real worker processes that are
// killed or suspended in mid-turn.
package adapters
