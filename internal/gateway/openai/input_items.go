package openai

import (
	"net/http"
	"slices"
	"strings"

	"turnstile/internal/gateway"
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

// newInput makes the item of a message, the same for its response and for the conversation.
func newInput(message, text string, files []session.Attachment) inputItem {
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
	return inputItem{ID: "msg_in_" + message, Type: "message", Role: "user", Status: completed, Content: parts}
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
	for _, item := range slices.Backward([]any{newInput(m.ID, m.Text, m.Attachments)}) {
		if !q.see(item) {
			break
		}
	}
	return q.respond(w)
}
