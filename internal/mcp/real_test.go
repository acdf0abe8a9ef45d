package mcp

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/test/expect"
)

// Servers of the protocol's own authors. `make real-agents` installs them.
func TestRealServers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mcp-server-everything", "mcp-server-filesystem"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("NOT CHECKED: %s is not installed; make real-agents does that", name)
		}
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	expect.OK(t, err)
	expect.OK(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("inside"), 0o600))
	set := open(t, Config{}, write(t, object{
		"all":   object{"command": "mcp-server-everything", "env": object{"SECRET": "${MCP_TEST_TOKEN}"}},
		"files": object{"command": "mcp-server-filesystem", "args": []string{dir}},
	}))
	for range 2 { // the second turn finds them warm
		tools, missing := begin(t, set)
		expect.Equal(t, "missing", len(missing), 0)
		expect.Equal(t, "reading is safe", tools["mcp__files__read_text_file"].Safe, true)
		expect.Equal(t, "writing is not", tools["mcp__files__write_file"].Safe, false)
		for _, c := range [][3]string{
			{"mcp__all__echo", `{"message":"hi"}`, "Echo: hi"},
			{"mcp__all__get-sum", `{"a":2,"b":3}`, "The sum of 2 and 3 is 5."},
			{"mcp__all__get-env", `{}`, "token-of-the-test"},
			{"mcp__files__read_text_file", `{"path":"` + dir + `/a.txt"}`, "inside"},
			{"mcp__files__read_text_file", `{"path":"/etc/passwd"}`, "Access denied"},
			{"mcp__files__write_file", `{"path":"` + dir + `/b.txt","content":"new"}`, "Successfully wrote"},
		} {
			got, err := tools[c[0]].Call(t.Context(), Call{Arguments: json.RawMessage(c[1]), Limit: expect.Patience})
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, c[2]) {
				t.Errorf("%s: %s", c[0], got)
			}
		}
		set.Rest()
	}
}
