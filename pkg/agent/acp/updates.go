package acp

import (
	"encoding/json"

	acpsdk "github.com/coder/acp-go-sdk"

	"turnstile/internal/text/boundedjson"
	"turnstile/internal/text/halves"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// update has the fields of a session/update of any kind that are used here. The SDK's types refuse
// content that they do not know, and would lose the form of a tool's input.
type update struct {
	Kind       string `json:"sessionUpdate"`
	toolUpdate        // session_info_update has a title, too

	// usage_update
	Used int64 `json:"used"`
	Size int64 `json:"size"`
	Cost *struct {
		Amount   float64 `json:"amount"`
		Currency string  `json:"currency"`
	} `json:"cost"`
}

// chunk is a notification with a piece of text.
type chunk struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		SessionID string `json:"sessionId"`
		Update    struct {
			Kind    string `json:"sessionUpdate"`
			Content struct {
				Type string        `json:"type"`
				Text *halves.Piece `json:"text"`
			} `json:"content"`
		} `json:"update"`
	} `json:"params"`
}

// piece takes a line that is a piece of text. There is one for each of the model's tokens, so it is
// decoded in one step. It returns false for other lines.
func (t *turn) piece(line []byte) bool {
	var c chunk
	if json.Unmarshal(line, &c) != nil || c.ID != nil || c.Method != acpsdk.ClientMethodSessionUpdate {
		return false
	}
	kind, piece, join := session.EventText, c.Params.Update.Content.Text, &t.words
	switch {
	case c.Params.Update.Content.Type != "text" || piece == nil:
		return false
	case c.Params.Update.Kind == "agent_message_chunk":
	case c.Params.Update.Kind == "agent_thought_chunk":
		kind, join = session.EventThought, &t.thoughts
	default:
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.emit == nil || c.Params.SessionID != t.state.ID {
		return false
	}
	t.hear()
	if kind == session.EventText {
		t.tools.flush()
	}
	if text := join.Join(*piece); text != "" {
		t.emitEvent(agent.Event{Type: kind, Text: text})
	}
	return true
}

// updated emits the events of a session/update.
func (t *turn) updated(params json.RawMessage) {
	var n struct {
		SessionID string          `json:"sessionId"`
		Update    json.RawMessage `json:"update"`
	}
	if err := json.Unmarshal(params, &n); err != nil || n.Update == nil {
		t.logger.Debug("an update of the agent is invalid", "error", err)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.emit == nil:
		return // the turn is over
	case n.SessionID != t.state.ID:
		t.logger.Debug("an update of another session was ignored", "id", n.SessionID)
		return
	}
	t.hear()
	var u update
	if err := boundedjson.Unmarshal(n.Update, &u); err != nil {
		t.logger.Debug("an update of the agent is of an unknown form", "error", err)
		var kind struct {
			Kind string `json:"sessionUpdate"`
		}
		_ = json.Unmarshal(n.Update, &kind)
		t.raw(kind.Kind, n.Update)
		return
	}
	t.take(u, n.Update)
}

// take emits the events of an update. t.mu is held.
func (t *turn) take(u update, whole json.RawMessage) {
	switch u.Kind {
	case "agent_message_chunk": // an image, for example
		t.tools.flush()
		t.spoken = true
		t.raw(u.Kind, whole)
	case "tool_call", "tool_call_update":
		if u.ID == "" {
			t.raw(u.Kind, whole)
			return
		}
		if ended := u.Status == "completed" || u.Status == "failed"; u.Kind == "tool_call" && !ended {
			t.tools.again(u.ID)
		}
		t.tools.update(u.toolUpdate)
		if t.tools.tooMany() {
			t.fail(errTools)
			t.emit = nil // whatever follows is dropped until the agent is gone
		}
	case "usage_update":
		t.used(u)
	case "session_info_update":
		if u.Title != nil && *u.Title != "" {
			t.emitEvent(agent.Event{Type: session.EventTitle, Text: *u.Title})
			return
		}
		t.raw(u.Kind, whole)
	default:
		t.raw(u.Kind, whole)
	}
}

func (t *turn) raw(kind string, whole json.RawMessage) {
	t.emitEvent(agent.Event{Type: session.EventRaw, Name: kind, Data: whole})
}

// used reports how full the context is, and the cost since the previous report. The agent's figure
// is that of its whole session, and is stored with it.
func (t *turn) used(u update) {
	usage := session.Usage{ContextTokens: max(u.Used, 0), ContextLimit: max(u.Size, 0)}
	if u.Cost != nil && u.Cost.Currency == "USD" && u.Cost.Amount > 0 {
		usage.CostUSD = u.Cost.Amount
		if u.Cost.Amount >= t.state.Cost { // else it has begun at zero again
			usage.CostUSD -= t.state.Cost
		}
		if t.state.Cost != u.Cost.Amount {
			t.state.Cost = u.Cost.Amount
			t.emitState()
		}
	}
	t.emitEvent(agent.Event{Type: session.EventUsage, Usage: &usage})
}

// textOf is the text of a content block. It returns false for blocks of another kind.
func textOf(content json.RawMessage) (string, bool) {
	var block struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if json.Unmarshal(content, &block) != nil || block.Type != "text" || block.Text == nil {
		return "", false
	}
	return *block.Text, true
}
