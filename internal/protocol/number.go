package protocol

import "strconv"

// Number reads a number that Redis keeps as a text; 0: there is none.
func Number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
