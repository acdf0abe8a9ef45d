package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	acpsdk "github.com/coder/acp-go-sdk"

	"turnstile/internal/text/boundedjson"
)

// opened is what an agent says of a session that it has opened.
type opened struct {
	SessionID string `json:"sessionId"`

	// Read only if a setting needs them: some agents send them in forms of their own.
	Options json.RawMessage `json:"configOptions"`
	Models  json.RawMessage `json:"models"` // before there were options
	Modes   json.RawMessage `json:"modes"`  // the same
}

// openedBy reads a response that need not say anything.
func openedBy(result json.RawMessage) (o opened) {
	_ = boundedjson.Unmarshal(result, &o)
	return o
}

// offer is what an agent lets its client choose, and how.
type offer struct {
	current string
	values  []string
	method  string
	params  map[string]any // without the choice, which is the parameter named by key
	key     string
}

// configOption is an acpsdk.SessionConfigOption of any form.
type configOption struct {
	ID       string          `json:"id"`
	Category string          `json:"category"`
	Current  json.RawMessage `json:"currentValue"` // a string, if it is a select
	Options  []configValue   `json:"options"`
}

// configValue is a value, or a group of values.
type configValue struct {
	Value   string        `json:"value"`
	Options []configValue `json:"options"`
}

// methodSetModel is not in the SDK: options have replaced it.
const methodSetModel = "session/set_model"

// configure sets the model and the mode of the agent's session. An agent that cannot have them fails: it would work with
// others than the operator has set.
func (w *warm) configure(ctx context.Context, o opened) error {
	for _, s := range []struct{ setting, what, value string }{
		{"TURNSTILE_MODEL", "model", w.config.Model}, {"TURNSTILE_ACP_MODE", "mode", w.config.Mode},
	} {
		if s.value == "" {
			continue
		}
		offered, ok := o.offer(s.what)
		switch {
		case !ok:
			return fmt.Errorf("%s is set, and the agent lets its client choose no %s: leave it out, and choose it in the agent's own settings", s.setting, s.what)
		case !slices.Contains(offered.values, s.value):
			return fmt.Errorf("%s is %q, which is no %s of the agent: use one of %s", s.setting, s.value, s.what, some(offered.values))
		case offered.current == s.value:
			continue
		}
		offered.params["sessionId"], offered.params[offered.key] = w.state.ID, s.value
		var result json.RawMessage
		err := w.call(ctx, offered.method, offered.params, &result)
		var refused *acpsdk.RequestError
		switch {
		case errors.As(err, &refused):
			return fmt.Errorf("the agent refused %s=%s: %w", s.setting, s.value, errorOf(refused))
		case err != nil:
			return err
		}
		if now := openedBy(result); now.Options != nil { // another model may have other modes
			o.Options = now.Options
		}
	}
	return nil
}

// offer returns the agent's offer of a model or a mode.
func (o opened) offer(what string) (offer, bool) {
	var options []configOption
	_ = boundedjson.Unmarshal(o.Options, &options) // what is no list of options offers nothing
	at := slices.IndexFunc(options, func(c configOption) bool { return c.Category == what })
	if at < 0 {
		at = slices.IndexFunc(options, func(c configOption) bool { return c.Category == "" && c.ID == what })
	}
	if at >= 0 {
		f := offer{method: acpsdk.AgentMethodSessionSetConfigOption, params: map[string]any{"configId": options[at].ID}, key: "value"}
		_ = json.Unmarshal(options[at].Current, &f.current)
		f.add(options[at].Options)
		return f, len(f.values) > 0
	}
	var models struct {
		Current string `json:"currentModelId"`
		All     []struct {
			ID string `json:"modelId"`
		} `json:"availableModels"`
	}
	var modes struct {
		Current string `json:"currentModeId"`
		All     []struct {
			ID string `json:"id"`
		} `json:"availableModes"`
	}
	f := offer{method: methodSetModel, params: map[string]any{}, key: "modelId"}
	if what == "model" {
		_ = boundedjson.Unmarshal(o.Models, &models)
		f.current = models.Current
		for _, m := range models.All {
			f.values = append(f.values, m.ID)
		}
		return f, len(f.values) > 0
	}
	_ = boundedjson.Unmarshal(o.Modes, &modes)
	f.method, f.key, f.current = acpsdk.AgentMethodSessionSetMode, "modeId", modes.Current
	for _, m := range modes.All {
		f.values = append(f.values, m.ID)
	}
	return f, len(f.values) > 0
}

// add adds values, with those of groups.
func (f *offer) add(values []configValue) {
	for _, v := range values {
		if v.Value != "" {
			f.values = append(f.values, v.Value)
		}
		f.add(v.Options)
	}
}

// named is how many values an error names.
const named = 20

func some(values []string) string {
	text := strings.Join(values[:min(len(values), named)], ", ")
	if more := len(values) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
