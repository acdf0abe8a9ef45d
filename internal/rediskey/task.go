package rediskey

import (
	"crypto/sha256"
	"encoding/hex"
)

// IDPrefix starts every asynq task id and turn id of a session: 8 hex digits of the key's hash
// and a dash. asynqmon's Cancel publishes a bare task id to every worker, so the id must identify
// its session.
func IDPrefix(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:4]) + "-"
}

// TaskID is the asynq task id of a message.
func TaskID(key, messageID string) string { return IDPrefix(key) + messageID }
