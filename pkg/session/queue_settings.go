package session

import (
	"strconv"
	"strings"
	"time"
)

// DropPolicy is how a full queue handles a new message.
type DropPolicy string

// The drop policies.
const (
	DropNew       DropPolicy = "new"       // the new message is refused
	DropOld       DropPolicy = "old"       // the oldest waiting message is archived
	DropSummarize DropPolicy = "summarize" // like DropOld, and the next turn's note shows the beginning of the message
)

// QueueSettings are a session's rules for messages that arrive while a turn runs. A zero field
// means the worker's setting.
type QueueSettings struct {
	// Mode is the mode of a message that has none.
	Mode Mode `json:"mode,omitempty"`

	// Debounce is how long collected messages wait for another one. In JSON it is in ms.
	Debounce Millis `json:"debounce_ms,omitempty"`

	// Cap is how many messages may wait for the running turn. That many collected messages wait no
	// longer.
	Cap int `json:"cap,omitempty"`

	// Drop is how messages beyond Cap are handled.
	Drop DropPolicy `json:"drop,omitempty"`
}

// String returns the settings as arguments of /queue.
func (s QueueSettings) String() string {
	var words []string
	if s.Mode != "" {
		words = append(words, string(s.Mode))
	}
	if s.Debounce != 0 {
		words = append(words, "debounce:"+time.Duration(s.Debounce).String())
	}
	if s.Cap != 0 {
		words = append(words, "cap:"+strconv.Itoa(s.Cap))
	}
	if s.Drop != "" {
		words = append(words, "drop:"+string(s.Drop))
	}
	return strings.Join(words, " ")
}
