package exec

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// A command is given the recap of a turn that failed in a turn object as docs/schemas has it.
func TestRecapOfAFailedTurn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "turn")
	a := newAgent(t, Config{Format: JSONL, Command: []string{"sh", "-c", `read -r turn; echo "$turn" >"$0"; echo '{"type":"result","text":"ok"}'`, file}})
	tn := turn(t, "what happened?")
	tn.History = agent.Remembered([]session.Entry{
		{Role: session.RoleUser, Text: "book it", Turn: "t0", Message: "m0"},
		{Role: session.RoleTool, Turn: "t0", Tool: &session.ToolUse{Name: "charge", Output: []byte(`"paid"`)}, Ended: &session.Ended{Status: session.StatusFailed, Why: "it refused"}},
	}, tn.Messages)
	_, err := a.Run(t.Context(), tn)
	expect.OK(t, err)
	f, err := os.Open(file)
	expect.OK(t, err)
	defer func() { _ = f.Close() }()
	given, err := jsonschema.UnmarshalJSON(f)
	expect.OK(t, err)
	expect.OK(t, jsonschema.NewCompiler().MustCompile(schemas+"/turn.json").Validate(given))
	last := given.(map[string]any)["history"].([]any)[2].(map[string]any)
	expect.Equal(t, "the last entry", last["text"], any("[This turn failed here: it refused]"))
	expect.Equal(t, "how it ended", last["ended"].(map[string]any)["status"], any("failed"))
}
