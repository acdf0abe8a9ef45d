package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// A tool is called mcp__SERVER__TOOL, as Claude Code calls it.
const (
	prefix  = "mcp__"
	between = "__"
	longest = 64 // characters of a name that every model's server takes
)

// toolName returns a tool's name for the model, and the same before it is shortened. Other characters than letters,
// digits, _ and - become _. Of a long name, and of one that is taken, the end is a hash.
func toolName(server, tool string, taken func(string) bool) (name, full string) {
	full = prefix + server + between + strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, tool)
	if len(full) <= longest && !taken(full) {
		return full, full
	}
	sum := sha256.Sum256([]byte(tool))
	hash := "_" + hex.EncodeToString(sum[:4])
	return full[:min(len(full), longest-len(hash))] + hash, full
}
