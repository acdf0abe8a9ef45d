//go:build race

package expect

func init() { withRace = true }
