package acp

import (
	"path/filepath"
	"strings"
	"testing"

	"turnstile/test/expect"
)

const (
	modelOption = `{"type":"select","id":"llm","name":"Model","category":"model","currentValue":"a/1","options":[{"value":"a/1","name":"1"},{"group":"b","name":"B","options":[{"value":"b/2","name":"2"}]}]}`
	modeOption  = `{"type":"select","id":"mode","name":"Mode","currentValue":"build","options":[{"value":"build","name":"Build"},{"value":"plan","name":"Plan"}]}`
	oldModels   = `"models":{"currentModelId":"a/1","availableModels":[{"modelId":"a/1","name":"1"},{"modelId":"b/2","name":"2"}]}`
	oldModes    = `"modes":{"currentModeId":"build","availableModes":[{"id":"build","name":"Build"},{"id":"plan","name":"Plan"}]}`
)

// The model and the mode are set before the first prompt, in the way that the agent offers.
func TestModelAndMode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model, mode string
		opened, set string
		want        []string // without the session's ID
		failed      string
	}{
		"options": {"b/2", "plan", `{"configOptions":[` + modelOption + `,` + modeOption + `]}`, `{"configOptions":[` + modeOption + `]}`, []string{
			`session/set_config_option {"configId":"llm","value":"b/2"}`, `session/set_config_option {"configId":"mode","value":"plan"}`,
		}, ""},
		"the other model has other modes": {"b/2", "plan", `{"configOptions":[` + modelOption + `,` + modeOption + `]}`, `{"configOptions":[]}`, nil, "TURNSTILE_ACP_MODE is set"},
		"as it is":                        {"a/1", "build", `{"configOptions":[` + modelOption + `,` + modeOption + `]}`, "", nil, ""},
		"older agents": {"b/2", "plan", `{` + oldModels + `,` + oldModes + `}`, `null`, []string{
			`session/set_model {"modelId":"b/2"}`, `session/set_mode {"modeId":"plan"}`,
		}, ""},
		"options before older ways": {"", "plan", `{"configOptions":[` + modeOption + `],` + oldModes + `}`, `{}`, []string{`session/set_config_option {"configId":"mode","value":"plan"}`}, ""},
		"none":                      {"b/2", "", `{}`, "", nil, "TURNSTILE_MODEL is set, and the agent lets its client choose no model: leave it out"},
		"no mode":                   {"", "plan", `{"configOptions":[` + modelOption + `]}`, "", nil, "TURNSTILE_ACP_MODE is set, and the agent lets its client choose no mode"},
		"odd options":               {"b/2", "", `{"configOptions":{"a":1}}`, "", nil, "lets its client choose no model"},
		"odd options and no wish":   {"", "", `{"configOptions":{"a":1},"modes":[]}`, "", nil, ""},
		"another name":              {"c/3", "", `{"configOptions":[` + modelOption + `]}`, "", nil, `TURNSTILE_MODEL is "c/3", which is no model of the agent: use one of a/1, b/2`},
		"refused":                   {"", "plan", `{` + oldModes + `}`, "", nil, "the agent refused TURNSTILE_ACP_MODE=plan: no such choice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "log")
			a := newAgent(t, Config{Command: actorCommand(t, "log="+log, "opened="+c.opened, "set="+c.set), Model: c.model, Mode: c.mode})
			h, err := play(t.Context(), a, turnWith(t, "text hello"))
			if c.failed != "" {
				failed(t, err, false, c.failed)
				if strings.Contains(methodsOf(t, log), "prompt") {
					t.Error("it was prompted")
				}
				return
			}
			expect.OK(t, err)
			var got []string
			for _, line := range logOf(t, log) {
				if method, params, _ := strings.Cut(line, " "); strings.HasPrefix(method, "session/set_") {
					before, id, _ := strings.Cut(params, `"sessionId":"s`)
					_, after, _ := strings.Cut(id, `"`)
					got = append(got, method+" "+strings.ReplaceAll(before+after, ",,", ","))
				}
			}
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], ",}", "}")
			}
			expect.List(t, "calls", got, c.want...)
			expect.Equal(t, "reply", h.text(), "hello")
		})
	}
}

// A session that is resumed gets them, too, and so does another one in the same process.
func TestModelOfLaterSessions(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	a := newAgent(t, Config{Command: actorCommand(t, "log="+log, "can-resume", "opened={"+oldModels+"}", "set={}"), Model: "b/2"})
	resumed := turnWith(t, "text hello")
	resumed.State = []byte(`{"agent":"acp","id":"old"}`)
	w := warmed(t, a, resumed)
	_, err := runWarm(t, w, resumed)
	expect.OK(t, err)
	other := turnWith(t, "text hello")
	other.TranscriptID = "id-2"
	_, err = runWarm(t, w, other)
	expect.OK(t, err)
	expect.Equal(t, "methods", methodsOf(t, log), "initialize resume set_model prompt new set_model prompt")
}
