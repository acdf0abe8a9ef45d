package neighbours

import (
	"os"
	"path/filepath"
	"testing"

	"turnstile/test/expect"
)

// Beside a worker of the version before, a worker with agents by name takes only sessions of the default
// one: the other would run a named agent's session with its own. They wait, and say so, and run with their
// agent when the other is gone.
func TestAgentsByName(t *testing.T) {
	t.Parallel()
	before, this := versions(t)
	s := newStage(t)
	file := filepath.Join(t.TempDir(), "agents.json")
	expect.OK(t, os.WriteFile(file, []byte(`{"a": {"sessions": ["a:*"], "agent": "exec", "agent_command": "sh -c 'echo the bot a'"}}`), 0o600))
	old := s.worker(before, "TURNSTILE_CONCURRENCY=1")
	s.say("d:long", "m", "sleep=1h") // it takes no other session
	expect.Soon(t, "the old worker is busy", func() bool { return s.info("d:long").Worker == old.worker() })

	s.worker(this, "TURNSTILE_AGENTS_FILE="+file)
	s.say("a:1", "m", "hello")
	s.say("d:1", "m", "hello")
	expect.Equal(t, "the default agent's reply", s.ends("d:1", "m").Reply, "echo: hello")
	expect.Soon(t, "the other session waits, and says so", func() bool { return s.info("a:1").Needs == "a" })
	expect.Equal(t, "the session's agent so far", s.info("a:1").Agent, "")
	old.Kill()
	expect.Equal(t, "the named agent's reply", s.ends("a:1", "m").Reply, "the bot a")
	expect.Equal(t, "the session's agent", s.info("a:1").Agent, "a")
}
