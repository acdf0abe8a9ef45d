package rediskey

import (
	"crypto/sha256"
	"encoding/hex"
)

// IDPrefix starts every asynq task ID and turn ID of a session: 8 hex digits of the key's hash
// and a dash. asynqmon's Cancel publishes a bare task ID to every worker, so the ID must identify
// its session.
func IDPrefix(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:4]) + "-"
}

// TaskID is the asynq task ID of a message.
func TaskID(key, messageID string) string { return IDPrefix(key) + messageID }
