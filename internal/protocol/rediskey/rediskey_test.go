package rediskey_test

import (
	"strings"
	"testing"

	"turnstile/internal/protocol/rediskey"
)

// asynqmon's Cancel publishes the bare task ID: it must identify the session.
func TestTaskIDsIdentifyTheirSession(t *testing.T) {
	t.Parallel()
	a, b := rediskey.TaskID("one", "m"), rediskey.TaskID("two", "m")
	if a == b || !strings.HasSuffix(a, "-m") || len(a) != 10 || !strings.HasPrefix(a, rediskey.IDPrefix("one")) {
		t.Errorf("task ids %q, %q", a, b)
	}
}
