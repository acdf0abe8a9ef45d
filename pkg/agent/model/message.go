package model

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// The roles of a request's messages.
const (
	roleSystem    = "system"
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
)

// How tokens are estimated.
const (
	bytesPerToken = 4
	messageTokens = 8    // in addition to its text
	imageTokens   = 1000 // at any size
)

// message is one message of a request.
type message struct {
	role   string
	text   string
	images []image    // of a user's
	calls  []toolCall // of the assistant's
	callID string     // of a tool's

	// Of the assistant's: what else the server has sent with it. Only that server and model get it back.
	fields fields
	from   string
}

// image is an image that the server fetches. named replaces it if the server cannot.
type image struct{ url, named string }

// toolCall is a tool call.
type toolCall struct {
	id, name string
	args     string // as they are sent: a JSON object
	raw      []byte // as received
	fields   fields // as in message

	sent      *session.Sent // for the transcript
	truncated bool          // the reply was at its limit: it does not run

	// Of a call that comes in pieces.
	index string
	chunk int // the last one with a piece
	half  half
	rest  pieces
}

// tokens is the message's estimated size.
func (m message) tokens() int {
	if m.role == roleSystem && m.text == "" {
		return 0
	}
	bytes := len(m.text) + m.fields.size() + len(m.callID)
	for _, c := range m.calls {
		bytes += len(c.id) + len(c.name) + len(c.args) + c.fields.size()
	}
	return messageTokens*(1+len(m.calls)) + imageTokens*len(m.images) + (bytes+bytesPerToken-1)/bytesPerToken
}

// give gives the message what a transcript has kept with it, or with one of its calls, and returns the call's.
func (m *message) give(sent *session.Sent) (call fields) {
	if sent == nil {
		return nil
	}
	if m.from = sent.From; len(sent.Fields) > 0 {
		m.fields = sent.Fields
	}
	return sent.Call
}

// alternating joins neighbours of one role, because many templates of models refuse them. Results of tools stay as they are.
func alternating(messages []message) (all []message) {
	for _, m := range messages {
		if n := len(all); n > 0 && all[n-1].role == m.role && m.role != roleTool {
			last := &all[n-1]
			last.text = joinedText(last.text, m.text)
			last.images, last.calls = slices.Concat(last.images, m.images), slices.Concat(last.calls, m.calls)
			if m.fields != nil || len(m.calls) > 0 {
				last.fields, last.from = m.fields, m.from
			}
			continue
		}
		all = append(all, m)
	}
	return all
}

// userMessage is a user's message. Images that the server can fetch are sent as such; other
// attachments are named.
func userMessage(who *agent.Speakers, text string, meta map[string]string, attachments []session.Attachment) message {
	m := message{role: roleUser}
	for _, a := range attachments {
		if !isImage(a) {
			text += "\n\n" + named(a)
		}
	}
	m.text = who.Said(text, meta)
	for _, a := range attachments {
		if isImage(a) {
			m.images = append(m.images, image{a.URL, who.Quote(named(a))})
		}
	}
	return m
}

// returned is a message with the files that a client's functions returned.
func returned(files []session.Attachment) message {
	m := message{role: roleUser, text: "[Files that the functions returned]"}
	for _, a := range files {
		if isImage(a) {
			m.images = append(m.images, image{a.URL, named(a)})
			continue
		}
		m.text += "\n\n" + named(a)
	}
	return m
}

// blind is the message with its images only named.
func (m message) blind() message {
	for _, i := range m.images {
		m.text += "\n\n" + i.named
	}
	m.images = nil
	return m
}

func isImage(a session.Attachment) bool {
	if !strings.HasPrefix(strings.ToLower(a.Mime), "image/") {
		return false
	}
	u, err := url.Parse(a.URL)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http" || u.Scheme == "data")
}

// named is an attachment as text.
func named(a session.Attachment) string {
	about := make([]string, 0, 2)
	if a.Mime != "" {
		about = append(about, a.Mime)
	}
	if a.Size > 0 {
		about = append(about, fmt.Sprintf("%d bytes", a.Size))
	}
	text := "[Attachment: " + a.Name
	if len(about) > 0 {
		text += " (" + strings.Join(about, ", ") + ")"
	}
	where := a.URL + a.Path // one of the two is empty
	if strings.HasPrefix(where, "data:") {
		where = ""
	}
	if where != "" {
		text += ": " + where
	}
	return text + "]"
}

// plain is a tool's output as the model reads it: a JSON string without its quotes.
func plain(output json.RawMessage) string {
	var text string
	if json.Unmarshal(output, &text) == nil && string(output) != "null" {
		return text
	}
	return string(output)
}
