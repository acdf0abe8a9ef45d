package exec

import (
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The examples of docs/agents/jsonl.md match the schemas.
func TestDocsExamplesAreValid(t *testing.T) {
	t.Parallel()
	c := jsonschema.NewCompiler()
	events, turns := c.MustCompile(schemas+"/agent-event.json"), c.MustCompile(schemas+"/turn.json")
	steers := c.MustCompile(schemas + "/turn.json#/$defs/steer")
	valid := func(s *jsonschema.Schema, text string) error {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err == nil {
			err = s.Validate(value)
		}
		return err
	}
	for info, schema := range map[string]*jsonschema.Schema{"jsonl": events, "jsonl steers": events, "jsonl stdin": steers, "jsonl step": events, "jsonl wait": events} {
		for _, block := range append(blocks(t, "agents/jsonl.md", info), blocks(t, "agents/exec.md", info)...) {
			for line := range strings.Lines(block) {
				if err := valid(schema, line); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		}
	}
	for _, block := range blocks(t, "agents/jsonl.md", "json turn") {
		if err := valid(turns, block); err != nil {
			t.Error(err)
		}
	}
	for _, line := range []string{
		`{}`, `{"type":"queued"}`, `{"type":"usage"}`, `{"type":"tool_start","name":"x"}`, `{"type":"tool_start","name":"","call_id":"1"}`,
		`{"type":"tool_start","key":""}`, `{"type":"tool_end"}`, `{"type":"tool_end","key":""}`, `{"type":"tool_end","call_id":"1","output":1,"error":"x"}`, `{"type":"steered"}`, `{"type":"error"}`, `{"type":"wait"}`, `{"type":"text","text":1}`,
	} {
		if valid(events, line) == nil {
			t.Errorf("%s is valid", line)
		}
	}
}
