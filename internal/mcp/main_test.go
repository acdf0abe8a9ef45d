package mcp

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"turnstile/pkg/agent/exec"
	"turnstile/test/mcpserver"
)

func TestMain(m *testing.M) {
	mcpserver.Init()
	exec.Init()
	for name, value := range map[string]string{"MCP_TEST_TOKEN": "token-of-the-test", "TURNSTILE_TEST_OWN": "1", "REDIS_URL": "redis://x"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
