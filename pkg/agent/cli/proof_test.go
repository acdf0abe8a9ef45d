package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// A turn goes on only if the program's own record shows that it has the turn's words. Otherwise it begins again.
func TestGoingOnNeedsAProof(t *testing.T) {
	t.Parallel()
	const thread = "01a21a5c-fd2c-7142-978b-359440d771da" // of 2026-11-27
	prompts := map[Kind]func(text string) string{
		Claude: func(text string) string {
			return string(encoded(map[string]any{"type": "user", "isSidechain": false, "message": map[string]any{"role": "user", "content": text}})) + "\n"
		},
		Codex: func(text string) string {
			return string(encoded(map[string]any{"type": "response_item", "payload": map[string]any{
				"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": text}},
			}})) + "\n"
		},
	}
	files := map[Kind]string{Claude: ".claude/projects/%/" + thread + ".jsonl", Codex: ".codex/sessions/2026/11/27/rollout-x-" + thread + ".jsonl"}
	compacted := map[Kind]string{
		Claude: `{"type":"system","subtype":"compact_boundary","content":"Conversation compacted"}` + "\n",
		Codex:  `{"type":"compacted","payload":{"message":"a summary"}}` + "\n",
	}
	for kind, prompt := range prompts {
		if programs[kind].record == nil {
			continue
		}
		said := prompt("earlier") + prompt("do it")
		for name, c := range map[string]struct {
			before, after string // the record's lines before the first run, and those that it adds
			change        func(*agent.Turn, *state, string)
			goesOn        bool
		}{
			"it has the words":           {after: said, goesOn: true},
			"with a recap and a note":    {after: prompt("[a recap]\n\n[a note]\n\ndo it"), goesOn: true},
			"in an older session":        {before: said, after: said, goesOn: true},
			"with a broken last line":    {after: said + `{"type":"us`, goesOn: true},
			"compacted before":           {after: compacted[kind] + said, goesOn: true},
			"compacted since":            {after: said + compacted[kind]},
			"it has other words":         {after: prompt("do it not")},
			"it had equal words before":  {before: said},
			"a broken line has them":     {after: strings.TrimSuffix(prompt("do it"), "}\n")},
			"it is no later run":         {after: said, change: func(t *agent.Turn, _ *state, _ string) { t.Redelivered = false }},
			"another message":            {after: said, change: func(t *agent.Turn, _ *state, _ string) { t.Messages[0].ID = "m2" }},
			"a further message":          {after: said, change: func(t *agent.Turn, _ *state, _ string) { t.Messages = append(t.Messages, session.Message{ID: "m2"}) }},
			"a message without an ID":    {after: said, change: func(t *agent.Turn, _ *state, _ string) { t.Messages[0].ID = "" }},
			"a message without words":    {after: said, change: func(t *agent.Turn, _ *state, _ string) { t.Messages[0].Text = " " }},
			"a state of another version": {after: said, change: func(_ *agent.Turn, s *state, _ string) { s.Given = nil }},
			"another session":            {after: said, change: func(_ *agent.Turn, s *state, _ string) { s.Session = lostID }},
			"no record":                  {after: said, change: func(_ *agent.Turn, _ *state, file string) { _ = os.Remove(file) }},
			"a link": {after: said, change: func(_ *agent.Turn, _ *state, file string) {
				_ = errors.Join(os.Rename(file, file+"x"), os.Symlink(file+"x", file))
			}},
			"a directory": {after: said, change: func(_ *agent.Turn, _ *state, file string) { _ = errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) }},
		} {
			t.Run(string(kind)+"/"+name, func(t *testing.T) {
				t.Parallel()
				dir, err := filepath.EvalSymlinks(t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				file := filepath.Join(dir, strings.ReplaceAll(files[kind], "%", notInName.ReplaceAllString(dir, "-")))
				write := func(text string) {
					if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
						t.Fatal(err)
					}
				}
				p, spec := programs[kind], command.Spec{Dir: dir, Env: []string{"HOME=" + dir}}
				tn, known := turn("do it"), state{Agent: kind}
				if c.before != "" {
					write(c.before)
					known.Session = thread
				}
				known.Given = p.giving(spec, known.Session, tn)
				known.Session = thread
				write(c.before + c.after)
				tn.Redelivered = true
				if c.change != nil {
					c.change(tn, &known, file)
				}
				if got := p.goOn(spec, known, tn); (got != "") != c.goesOn {
					t.Errorf("%q", got)
				}
			})
		}
	}
}

// Claude Code forgets a tool that did not end, so it is named. So is one whose end it had not written down.
func TestWhatClaudeForgets(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	expect.OK(t, err)
	spec := command.Spec{Dir: dir, Env: []string{"HOME=" + dir}}
	tn := turn("do it")
	tn.Redelivered = true
	known := state{Agent: Claude, Session: "s-1", Given: claude.giving(spec, "", tn)}
	_, file := claude.record(spec, known.Session)
	expect.OK(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(`{"type":"queue-operation","content":"do it"}
{"type":"user","isMeta":true,"message":{"content":"the program's own"}}
{"type":"user","message":{"content":"do it"}}
{"type":"user","isSidechain":true,"message":{"content":"a helper's"}}
{"type":"assistant","message":{"content":[{"type":"text","text":"x"},{"type":"tool_use","id":"t1","name":"One","input":{"command":"a"}}]}}
{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t0","name":"Zero","input":{}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t0","content":"b"},{"type":"tool_result","tool_use_id":"t1","content":"b"}]}}
{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t2","name":"Two","input":{}},{"type":"tool_use","id":"t3","name":"Three","input":{}}]}}
`), 0o600)))
	for _, id := range []string{"t1", "t2"} {
		tn.History = append(tn.History, session.Entry{Role: session.RoleTool, Tool: &session.ToolUse{Name: "Known", CallID: id, Output: []byte(`"` + id + `"`)}})
	}
	_, said, _ := strings.Cut(claude.goOn(spec, known, tn), "\n\n")
	expect.Equal(t, "what is named", said, `Assistant used the tool Known(): "t2"
Assistant used the tool Three({}), which did not finish]`)
}
