package acp

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// goOn are the agents, by the names that they give themselves, that may go on with an interrupted turn:
// docs/agents/tested.md names the test of each. With others the turn begins again.
var goOn = map[string]bool{"OpenCode": true}

// replay is what session/load shows of an agent's session.
type replay struct {
	mu    sync.Mutex
	user  bool            // the user's text came last
	words []string        // the user's last texts, in pieces
	ended map[string]bool // tools, by ID
}

// take takes a session/update.
func (r *replay) take(params json.RawMessage) {
	var n struct {
		Update update `json:"update"`
	}
	if json.Unmarshal(params, &n) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	u := n.Update
	if u.Kind != "user_message_chunk" {
		r.user = false
		if u.Status == "completed" || u.Status == "failed" {
			r.ended[u.ID] = true
		}
		return
	}
	if !r.user {
		r.user, r.words = true, nil
	}
	if text, ok := textOf(u.Content); ok {
		r.words = append(r.words, text)
	}
}

// goOn returns the text with which the agent goes on with an interrupted turn. It is "" unless the agent's session
// has the turn's words, and nothing of the user after them.
func (r *replay) goOn(turn *agent.Turn) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := *turn
	own.Note = ""
	words := strings.TrimSpace(command.Users{}.Quote(own.Text()))
	// A recap and other lines may stand before the words.
	has := func(text string) bool { return strings.HasSuffix(strings.TrimSpace(text), words) }
	if words == "" || !has(strings.Join(r.words, "")) && !slices.ContainsFunc(r.words, has) || saidBefore(turn, words) {
		return ""
	}
	return turn.GoOn(func(id string) bool { return r.ended[id] })
}

// saidBefore reports whether the message before the turn could be taken for this one.
func saidBefore(turn *agent.Turn, words string) bool {
	for _, e := range slices.Backward(turn.History) {
		if e.Role != session.RoleUser || slices.ContainsFunc(turn.Messages, func(m session.Message) bool { return m.ID == e.Message }) {
			continue
		}
		before := command.Users{}.Quote(turn.Speakers().Quote(strings.TrimSpace(e.Text)))
		return strings.HasSuffix(before, words) || strings.HasSuffix(words, before)
	}
	return false
}
