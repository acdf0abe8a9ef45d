package openai

import (
	"fmt"
	"net/http"
	"strings"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/session"
)

// inputItem is a message of the user, as it was sent to a session.
type inputItem struct {
	ID      string      `json:"id"`
	Type    string      `json:"type"`
	Role    string      `json:"role"`
	Status  string      `json:"status"`
	Content []inputPart `json:"content"`
}

// inputPart is a text, an image or a file.
type inputPart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	Detail   string `json:"detail,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
	Filename string `json:"filename,omitempty"`
	FileURL  string `json:"file_url,omitempty"`
	FileData string `json:"file_data,omitempty"`
}

// resultItem is a result of a call of the client's function, as it was sent to a session.
type resultItem struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Status string `json:"status"`
	Output any    `json:"output"` // a string, or with files a list of parts
}

// inputs are the items of a message. Those of a conversation name its turn.
func inputs(turn, message, text string, files []session.Attachment, results []session.CallResult) (items []any) {
	for i, r := range results {
		item := resultItem{ID: fmt.Sprintf("%s_%d", inputID("fco", turn, message), i), Type: "function_call_output", CallID: r.CallID, Status: completed, Output: r.Output}
		if len(r.Attachments) > 0 {
			item.Output = newInput(turn, message, r.Output, r.Attachments).Content
		}
		items = append(items, item)
	}
	if text != "" || len(files) > 0 || len(results) == 0 {
		items = append(items, newInput(turn, message, text, files))
	}
	return items
}

func newInput(turn, message, text string, files []session.Attachment) inputItem {
	parts := []inputPart{{Type: "input_text", Text: text}}
	for _, f := range files {
		part := inputPart{Type: "input_file", Filename: f.Name}
		switch {
		case strings.HasPrefix(f.Mime, "image/") && f.URL != "":
			part = inputPart{Type: "input_image", Detail: "auto", ImageURL: f.URL}
		case strings.HasPrefix(f.URL, "data:"):
			part.FileData = f.URL
		default:
			part.FileURL = f.URL
		}
		parts = append(parts, part)
	}
	return inputItem{ID: inputID("msg", turn, message), Type: "message", Role: "user", Status: completed, Content: parts}
}

// getInputItems lists the input of a response.
func (a *API) getInputItems(w http.ResponseWriter, r *gateway.Request) error {
	q, err := listed(r)
	if err != nil {
		return err
	}
	_, m, err := a.find(r)
	if err != nil {
		return err
	}
	var results []session.CallResult
	if m.Request != nil {
		results = m.Request.Results
	}
	q.seeAll(inputs("", m.ID, m.Text, m.Attachments, results))
	return q.respond(w)
}
