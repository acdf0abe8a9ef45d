package redisconn

import (
	"log/slog"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	LogTo(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}
