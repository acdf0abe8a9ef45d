package redisconn

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogTo sends the Redis client library's log, mostly about connections, to logger at level debug,
// for the whole process. Without it the library writes to stderr in another format.
func LogTo(logger *slog.Logger) { redis.SetLogger(slogger{logger}) }

type slogger struct{ *slog.Logger }

// Printf implements the library's interface.
func (l slogger) Printf(ctx context.Context, format string, args ...any) {
	if l.Enabled(ctx, slog.LevelDebug) {
		l.DebugContext(ctx, "redis client", "text", oneLine(fmt.Sprintf(format, args...)))
	}
}
