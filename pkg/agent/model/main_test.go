package model

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"turnstile/pkg/agent/exec"
	"turnstile/test/mcpserver"
)

// The environment has everything that the SDKs' own clients would read. None of it may reach a
// server.
func TestMain(m *testing.M) {
	mcpserver.Init()
	exec.Init()
	for name, value := range map[string]string{
		"OPENAI_API_KEY": "sk-from-the-environment", "OPENAI_ADMIN_KEY": "sk-admin", "OPENAI_BASE_URL": "http://127.0.0.1:1/nowhere",
		"OPENAI_ORG_ID": "org-env", "OPENAI_PROJECT_ID": "proj-env", "OPENAI_CUSTOM_HEADERS": "X-Custom: yes",
		"ANTHROPIC_API_KEY": "sk-ant-from-the-environment", "ANTHROPIC_AUTH_TOKEN": "env", "ANTHROPIC_BASE_URL": "http://127.0.0.1:1/nowhere", "ANTHROPIC_CUSTOM_HEADERS": "X-Custom: yes",
		"REDIS_URL_TEST": "1", "TOOL_TEST_ONE": "1", "TOOL_TEST_TWO": "2",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
