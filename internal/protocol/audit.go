package protocol

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/script"
)

// mostBy bounds a name in an audit, in bytes: so a thousand lines have about 256 KiB. A decision's has up to
// 512 bytes, as in its event.
const mostBy = 150

func cutBy(name string) string { return CutText(name, mostBy) }

// AuditLine is a line of a session's audit, as lua/lib/audit.lua writes it.
type AuditLine struct {
	At   time.Time // by Redis' clock
	By   string
	Did  string
	What string
}

// Audit reads a session's audit, the oldest line first. A line that cannot be read is left out.
func Audit(ctx context.Context, rdb redis.UniversalClient, sessionKey string) ([]AuditLine, error) {
	lines, err := rdb.LRange(ctx, rediskey.For(sessionKey).Audit(), 0, -1).Result()
	if err != nil {
		return nil, err
	}
	all := make([]AuditLine, 0, len(lines))
	for _, line := range lines {
		var l struct {
			At            int64
			By, Did, What string
		}
		if json.Unmarshal([]byte(line), &l) == nil {
			all = append(all, AuditLine{time.UnixMilli(l.At), l.By, l.Did, l.What})
		}
	}
	return all, nil
}

// ScriptName returns the move of a script's SHA-1, which MONITOR and SLOWLOG show: "claim",
// "finish". It returns "" for a script of another program.
func ScriptName(sha string) string {
	s, _ := script.BySHA(sha)
	return strings.TrimSuffix(s.Name, "_fast")
}
