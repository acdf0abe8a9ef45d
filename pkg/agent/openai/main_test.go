package openai

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"turnstile/pkg/agent/exec"
)

// The environment has everything that the SDK's own client would read. None of it may reach a
// server.
func TestMain(m *testing.M) {
	exec.Init()
	for name, value := range map[string]string{
		"OPENAI_API_KEY": "sk-from-the-environment", "OPENAI_ADMIN_KEY": "sk-admin", "OPENAI_BASE_URL": "http://127.0.0.1:1/nowhere",
		"OPENAI_ORG_ID": "org-env", "OPENAI_PROJECT_ID": "proj-env", "OPENAI_CUSTOM_HEADERS": "X-Custom: yes",
		"REDIS_URL_TEST": "1", "TOOL_TEST_ONE": "1", "TOOL_TEST_TWO": "2",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
