package openai

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

// leftOutHeader says in a response how many pictures and files of the request's history were left out.
const leftOutHeader = "X-Turnstile-Left-Out"

// fit makes the message of a request, which may have its history: programs that keep their conversations send old
// pictures again with each message. Of a message that would be too large, the oldest pictures and files of the history
// are left out until it fits. What is new is never left out.
func (a *API) fit(w http.ResponseWriter, all []statement, history bool, compose func([]statement) (turnstile.Message, error)) (turnstile.Message, error) {
	m, err := compose(all)
	if err != nil || !slices.ContainsFunc(all, func(s statement) bool { return len(s.files) > 0 }) {
		return m, err // the client judges it
	}
	all = slices.Clone(all)
	for gone := 0; ; {
		data, err := wire.Message{Text: m.Text, Mode: m.Mode, Meta: m.Meta, Attachments: m.Attachments, Request: m.Request}.Payload()
		over, left := len(data)-a.messageBytes, 0
		if err != nil || over <= 0 {
			if gone > 0 {
				w.Header().Set(leftOutHeader, strconv.Itoa(gone))
			}
			return m, err
		}
		if history {
			left = leaveOut(all, over)
		}
		if left == 0 {
			return m, gateway.Fail(gateway.MessageTooLarge, "What is new in the request, with the texts of its history, has %d bytes in JSON, at most %d are allowed: send smaller pictures and files, or their http URLs.", len(data), a.messageBytes)
		}
		if m, err = compose(all); err != nil {
			return m, err
		}
		gone += left
	}
}

// leaveOut takes the oldest files out of a history, about so many bytes of them, and returns how many it took. A mark in
// the statement's text stands for each.
func leaveOut(all []statement, bytes int) (gone int) {
	latest := len(all) // the user's last words begin here
	for latest > 0 && all[latest-1].role != roleUser {
		latest--
	}
	for latest > 0 && all[latest-1].role == roleUser {
		latest--
	}
	for i := range all[:behindAssistant(all)] {
		s := &all[i]
		if i >= latest && s.role == roleUser {
			continue
		}
		kept, marks := []session.Attachment(nil), []string{}
		if s.text != "" {
			marks = append(marks, s.text)
		}
		for _, f := range s.files {
			mark := "[A file sent earlier is left out here: it does not fit.]"
			if strings.HasPrefix(f.Mime, "image/") {
				mark = "[A picture sent earlier is left out here: it does not fit.]"
			}
			if bytes <= 0 || len(f.URL) < 2*len(mark) {
				kept = append(kept, f)
				continue
			}
			marks = append(marks, mark)
			bytes, gone = bytes-len(f.URL)+len(mark), gone+1
		}
		s.text, s.files = strings.Join(marks, "\n\n"), kept
	}
	return gone
}
