package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"turnstile/internal/mcp"
	"turnstile/internal/process/command"
	"turnstile/internal/protocol/wire"
	"turnstile/internal/text/strictjson"
	"turnstile/pkg/session"
)

// Tool is a command that the model may use. It reads the arguments, a JSON object, from its stdin,
// and writes the result to its stdout: JSON, or else text.
type Tool struct {
	Name        string `json:"name"`        // letters, digits, _ and -, at most 64
	Description string `json:"description"` // tells the model when to use it

	// Parameters is the JSON schema of the arguments, an object. Empty: there are none.
	Parameters json.RawMessage `json:"parameters"`

	// Argv is the program and its arguments. No shell is involved, and no word of the model's
	// becomes part of it. A program without a slash is looked up in PATH at every use.
	Argv []string `json:"argv"`

	// Timeout is how long the tool may take before it is killed. Defaults to Config.ToolTimeout. In a
	// file of tools it is a text, such as 30s.
	Timeout time.Duration `json:"-"`

	// Dir is the tool's working directory. Empty: this program's, or the session's with an Isolation.
	Dir string `json:"dir"`

	// Env names further environment variables, in addition to Config.Env.
	Env []string `json:"env"`

	// Ask: each use waits for the user's permission. Approvers are who may give it, see
	// session.Question; with any the tool asks, too.
	Ask       bool     `json:"ask"`
	Approvers []string `json:"approvers"`

	// Safe: the tool has no effects. A use that a dead worker interrupted runs again.
	Safe bool `json:"safe"`

	// Unknown is what happens to such a use of a tool that may have had effects. "retry" runs it again with
	// the same TURNSTILE_STEP_KEY, for a tool whose receiver knows that. "skip" tells the model to check. It
	// defaults to "skip", and to "retry" of a Safe tool.
	Unknown string `json:"unknown"`
}

// The values of Tool.Unknown.
const (
	unknownRetry = "retry"
	unknownSkip  = "skip"
)

// runsAgain reports whether a use whose end is unknown runs again.
func (t Tool) runsAgain() bool { return t.Safe || t.Unknown == unknownRetry }

type tool struct {
	Tool
	environ  command.Env
	isolator command.Isolator

	call func(ctx context.Context, c mcp.Call) (string, error) // not nil: it is a server's, and no command
}

// schema is the parameters' schema as it is sent.
func (t Tool) schema() json.RawMessage {
	if len(t.Parameters) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return t.Parameters
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// check returns everything that is wrong with a tool by itself.
func (t Tool) check() (problems []error) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if !toolName.MatchString(t.Name) {
		add("the name %q is not made of 1 to 64 letters, digits, _ and -", t.Name)
	}
	var schema struct {
		Type *string `json:"type"`
	}
	if len(t.Parameters) > 0 {
		if err := json.Unmarshal(t.Parameters, &schema); err != nil || !bytes.HasPrefix(bytes.TrimSpace(t.Parameters), []byte("{")) {
			add("its parameters are no JSON schema object")
		} else if schema.Type == nil || *schema.Type != "object" {
			add(`its parameters need "type": "object"`)
		}
	}
	if len(t.Argv) == 0 || strings.TrimSpace(t.Argv[0]) == "" {
		add("its argv has no program")
	}
	if slices.ContainsFunc(t.Argv, func(word string) bool { return strings.IndexByte(word, 0) >= 0 }) {
		add("its argv contains a zero byte")
	}
	if err := session.ValidateApprovers(t.Approvers); err != nil {
		problems = append(problems, err)
	}
	switch {
	case t.Unknown != "" && t.Unknown != unknownRetry && t.Unknown != unknownSkip:
		add("its unknown is %q: write retry or skip", t.Unknown)
	case t.Safe && t.Unknown == unknownSkip:
		add("it is safe, so it runs again, but its unknown is skip: leave out one of the two")
	}
	if t.Timeout < 0 {
		add("its timeout is negative")
	}
	if _, err := command.NewEnv(t.Env); err != nil {
		problems = append(problems, err)
	}
	for _, name := range t.Env {
		if before, _, value := strings.Cut(name, "="); value || strings.HasPrefix(name, "-") {
			add("its env has more than a name at %.40q: give the variables' names only", before)
		}
	}
	return problems
}

// LoadTools reads a file of tools: a JSON array of objects with the fields of Tool. In argv[0] and
// dir a relative path with a slash starts at the file's directory. The error has a line for each
// problem.
func LoadTools(path string) ([]Tool, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the tools: %w", err)
	}
	here, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("find the tools' directory: %w", err)
	}
	var raw []json.RawMessage
	if err := strictjson.Decode(data, &raw); err != nil {
		return nil, fmt.Errorf("tools file %s: it is not a JSON array of tools: %w", path, err)
	}
	var problems []error
	tools := make([]Tool, len(raw))
	first := map[string]int{}
	for i, one := range raw {
		t := &tools[i]
		file := struct {
			*Tool
			Timeout wire.Duration `json:"timeout"`
		}{Tool: t}
		var its []error
		if err := strictjson.Decode(one, &file); err != nil {
			its = append(its, err)
		} else {
			t.Timeout = time.Duration(file.Timeout)
			its = t.check()
		}
		if n, twice := first[t.Name]; twice && t.Name != "" {
			its = append(its, fmt.Errorf("tool %d has the name %q, too", n, t.Name))
		} else {
			first[t.Name] = i + 1
		}
		for _, err := range its {
			problems = append(problems, fmt.Errorf("tools file %s: tool %d: %w", path, i+1, err))
		}
		t.startAt(here)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return tools, nil
}

// startAt makes the relative paths absolute.
func (t *Tool) startAt(dir string) {
	if len(t.Argv) > 0 && strings.Contains(t.Argv[0], "/") && !filepath.IsAbs(t.Argv[0]) {
		t.Argv[0] = filepath.Join(dir, t.Argv[0])
	}
	if t.Dir != "" && !filepath.IsAbs(t.Dir) {
		t.Dir = filepath.Join(dir, t.Dir)
	}
}
