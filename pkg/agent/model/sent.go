package model

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"turnstile/pkg/session"
)

// pieces are what a server has sent with a reply or a call in fields that Chat Completions do not have, such as thoughts
// and signatures. Servers want them back, unchanged.
type pieces map[string][]json.RawMessage

// add adds a piece of a field. Nulls say nothing.
func (p *pieces) add(name string, raw json.RawMessage) (size int) {
	if string(raw) == "null" || len(raw) == 0 {
		return 0
	}
	if *p == nil {
		*p = pieces{}
	}
	if len((*p)[name]) == 0 {
		size = len(name)
	}
	(*p)[name] = append((*p)[name], raw)
	return size + len(raw) + fragmentSize/2
}

// join makes one value of each field: texts and lists follow each other, objects have the fields of all.
func (p pieces) join() fields {
	if len(p) == 0 {
		return nil
	}
	all := fields{}
	for name, raws := range p {
		var value json.RawMessage
		var list items
		for _, raw := range raws {
			var more []json.RawMessage
			switch {
			case raw[0] == '[' && json.Unmarshal(raw, &more) == nil:
				for _, item := range more {
					list.add(item)
				}
				value = nil
			case isText(raw) && isText(value):
				value = grown(value, raw)
			default:
				value = merged(value, raw)
			}
		}
		if value == nil {
			value, _ = encode(list.all()) // it was decoded
		}
		var compact bytes.Buffer
		if json.Compact(&compact, value) == nil {
			all[name] = bytes.ToValidUTF8(compact.Bytes(), []byte("\uFFFD"))
		}
	}
	return all
}

func (f fields) size() (bytes int) {
	for name, raw := range f {
		bytes += len(name) + len(raw)
	}
	return bytes
}

// filled has those of more that are missing.
func (f fields) filled(more fields) fields {
	if len(more) == 0 {
		return f
	}
	all := maps.Clone(more)
	maps.Copy(all, f)
	return all
}

// growing are the fields of an item of thoughts that come in pieces.
var growing = []string{"text", "thinking", "summary"}

// items are those of a list that comes in pieces.
type items struct {
	whole []json.RawMessage
	last  fields // decoded, if the last one may go on
	grew  bool
}

// add adds an item. A piece of the last one's text belongs to that one, until it is signed.
func (l *items) add(raw json.RawMessage) {
	var next fields
	if json.Unmarshal(raw, &next) == nil && next != nil && continues(l.last, next) {
		l.last.merge(next)
		l.grew = true
		return
	}
	l.whole, l.last, l.grew = append(l.all(), raw), next, false
}

func (l *items) all() []json.RawMessage {
	if l.grew {
		l.whole[len(l.whole)-1], _ = encode(l.last) // it was decoded
	}
	return l.whole
}

func continues(last, next fields) bool {
	for _, same := range []string{"type", "index", "id"} {
		if !bytes.Equal(last[same], next[same]) && (same != "id" || !nothing(last[same]) && !nothing(next[same])) {
			return false
		}
	}
	for _, name := range growing {
		if isText(last[name]) {
			return nothing(last["signature"])
		}
	}
	return false
}

// merged is an object with the fields of another piece of it. Of anything else the last piece counts.
func merged(was, is json.RawMessage) json.RawMessage {
	var old, more fields
	if json.Unmarshal(was, &old) != nil || json.Unmarshal(is, &more) != nil || old == nil || more == nil {
		return is
	}
	old.merge(more)
	value, _ := encode(old)
	return value
}

func (f fields) merge(more fields) {
	for name, raw := range more {
		switch known := f[name]; {
		case string(raw) == "null" && len(known) > 0:
		case isText(known) && isText(raw) && slices.Contains(growing, name):
			f[name] = grown(known, raw)
		default:
			f[name] = merged(known, raw)
		}
	}
}

// grown is a text with its next piece, both as JSON: so a surrogate pair in two pieces is one character.
func grown(was, is json.RawMessage) json.RawMessage {
	return append(was[:len(was)-1], is[1:]...)
}

// origin names the server and the model, without credentials.
func (a *Agent) origin() string { return a.base.Host + a.base.EscapedPath() + " " + a.config.Model }

// sent is what a transcript keeps of a reply beside its text and calls; nil: nothing.
func (r *run) sent(message, call fields) *session.Sent {
	if len(message)+len(call) == 0 {
		return nil
	}
	return &session.Sent{From: r.origin(), Fields: message, Call: call}
}

// keep gives each call its part of what the transcript keeps. The first call has the message's, too, and without calls
// the text has it.
func (r *run) keep(a *completion) {
	first := max(slices.IndexFunc(a.calls, func(c toolCall) bool { return !r.functions[c.name] }), 0) // of the transcript
	for i := range a.calls {
		c := &a.calls[i]
		c.sent = r.sent(nil, c.fields)
		if i == first {
			c.sent = r.sent(a.fields, c.fields)
		}
		c.truncated = a.finish == finishLength
	}
}
