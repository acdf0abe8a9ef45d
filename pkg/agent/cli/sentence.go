package cli

import (
	"encoding/json"
	"strings"

	"turnstile/internal/process/command"
)

// maxSentence is how long an error may be, in bytes.
const maxSentence = 2000

// clean is a program's text without the colors of a terminal.
func clean(text string) string {
	return strings.TrimSpace(command.Uncolored(text))
}

// sentence is a program's error as text for users. Programs often wrap a server's response as JSON;
// then it is the message in it.
func sentence(text string) string {
	text = clean(text)
	begin, end := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if begin >= 0 && end > begin {
		if message := messageOf([]byte(text[begin : end+1])); message != "" {
			text = text[:begin] + message + text[end+1:]
		}
	}
	return cut(text, maxSentence)
}

// messageOf is the message in a server's response: its own or that of its error, which may hold
// another response.
func messageOf(data []byte) string {
	var body struct {
		Message string          `json:"message"`
		Error   json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &body) != nil {
		return ""
	}
	if body.Message != "" {
		if inner := messageOf([]byte(body.Message)); inner != "" {
			return inner
		}
		return body.Message
	}
	if len(body.Error) > 0 && body.Error[0] == '{' {
		return messageOf(body.Error)
	}
	return ""
}

// cut shortens a text to most bytes, at the end of a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
