package acp

import (
	"cmp"
	"context"
	"encoding/json"

	"turnstile/pkg/agent"
)

// elicitation is an agent's request for input of the user. A page to open, and a form that yes or no fills in, are
// questions. Turnstile's questions have no other decisions, so every other form is declined.
type elicitation struct {
	Mode    string `json:"mode"` // form or url
	Message string `json:"message"`
	URL     string `json:"url"`
	Tool    string `json:"toolCallId"`
	Schema  struct {
		Properties map[string]json.RawMessage `json:"properties"`
	} `json:"requestedSchema"`
}

// elicited is the response.
type elicited struct {
	Action  string          `json:"action"`
	Content map[string]bool `json:"content,omitempty"`
}

// The actions of a response.
const (
	accept  = "accept"
	decline = "decline"
	cancel  = "cancel"
)

// elicit puts an elicitation to the user.
func (t *turn) elicit(ctx context.Context, e elicitation) elicited {
	yes := elicited{Action: accept}
	fits := e.Mode == "url" && e.URL != "" || e.Mode == "form" && len(e.Schema.Properties) <= 1
	for name, raw := range e.Schema.Properties {
		var p struct {
			Type string `json:"type"` // or a list, which does not fit
		}
		fits = json.Unmarshal(raw, &p) == nil && fits && p.Type == "boolean"
		yes.Content = map[string]bool{name: true}
	}
	said := cmp.Or(e.Message, "it did not say for what")
	if !fits {
		t.notice("The agent asked for input and got none, because it can be given only yes or no: " + said)
		return elicited{Action: decline}
	}
	if t.config.Permissions != AskUser || t.host.Ask == nil {
		t.notice("The agent asked for input and got none, because no user is asked here: " + said)
		return elicited{Action: decline}
	}
	text := e.Message
	if e.URL != "" {
		text += "\n\n" + e.URL
	}
	switch decision, asked := t.question(ctx, agent.Question{CallID: e.Tool, Name: "input", Text: text}); {
	case !asked:
		return elicited{Action: cancel}
	case decision.Allowed():
		return yes
	}
	return elicited{Action: decline}
}
