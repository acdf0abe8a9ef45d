package session

// Message is a user's message.
type Message struct {
	ID          string            `json:"id"` // unique within its session
	Text        string            `json:"text"`
	Meta        map[string]string `json:"meta,omitempty"`
	Attachments []Attachment      `json:"attachments,omitempty"`

	// Request is what the sender's program brings for the agent's model. nil: nothing.
	Request *ModelRequest `json:"request,omitempty"`
}

// Attachment is a reference to a file. Turnstile hands it to the agent and does not open the file.
// Name is required, and either URL or Path.
type Attachment struct {
	Name string `json:"name"`
	Mime string `json:"mime,omitempty"`
	URL  string `json:"url,omitempty"`
	Path string `json:"path,omitempty"`
	Size int64  `json:"size,omitempty"` // bytes
}

// NoReply as a message's destination means none, even if its session has one.
const NoReply = "-"
