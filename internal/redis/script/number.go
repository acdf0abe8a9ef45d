package script

import "strconv"

// Number reads a number that Redis stores as text. Anything else is 0.
func Number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
