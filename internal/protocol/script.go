package protocol

import (
	"strings"

	"turnstile/internal/redis/script"
)

// ScriptName returns the move of a script's SHA-1, which MONITOR and SLOWLOG show: "claim",
// "finish". It returns "" for a script of another program.
func ScriptName(sha string) string {
	s, _ := script.BySHA(sha)
	return strings.TrimSuffix(s.Name, "_fast")
}
