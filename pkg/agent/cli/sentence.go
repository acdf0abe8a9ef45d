package cli

import (
	"encoding/json"
	"strings"

	"turnstile/internal/process/command"
)

// maxSentence is how long an error may be, in bytes.
const maxSentence = 2000

// maxError is how much of an error is read, in bytes, and maxWrapped how many responses are unwrapped.
const maxError, maxWrapped = 64 << 10, 8

// clean is a program's text without the colors of a terminal.
func clean(text string) string {
	return strings.TrimSpace(command.Uncolored(text))
}

// sentence is a program's error as text for users. Programs often wrap a server's response as JSON;
// then it is the message in it.
func sentence(text string) string {
	text = clean(cut(text, maxError))
	begin, end := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if begin >= 0 && end > begin {
		if message := messageOf([]byte(text[begin:end+1]), maxWrapped); message != "" {
			text = text[:begin] + message + text[end+1:]
		}
	}
	return cut(text, maxSentence)
}

// messageOf is the message in a server's response: its own or that of its error, which may hold
// another response, at most that many.
func messageOf(data []byte, most int) string {
	var body struct {
		Message string          `json:"message"`
		Error   json.RawMessage `json:"error"`
	}
	if most == 0 || json.Unmarshal(data, &body) != nil {
		return ""
	}
	if body.Message != "" {
		if inner := messageOf([]byte(body.Message), most-1); inner != "" {
			return inner
		}
		return body.Message
	}
	if len(body.Error) > 0 && body.Error[0] == '{' {
		return messageOf(body.Error, most-1)
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
