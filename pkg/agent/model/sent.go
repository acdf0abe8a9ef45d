package model

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"turnstile/internal/text/boundedjson"
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

// join makes one value of each field.
func (p pieces) join() fields {
	all := fields{}
	for name, raws := range p {
		var compact bytes.Buffer
		if json.Compact(&compact, joinedPieces(raws, true, mostDeep)) == nil {
			all[name] = bytes.ToValidUTF8(compact.Bytes(), []byte("\uFFFD"))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// mostDeep is how deep values are joined. Deeper ones are replaced.
const mostDeep = 8

// joinedPieces is one value of its pieces: texts follow each other if they grow, lists too, and objects have the fields
// of all. Of anything else the last piece counts. Pieces with nothing in them change nothing.
func joinedPieces(raws []json.RawMessage, grows bool, deep int) json.RawMessage {
	last := raws[len(raws)-1]
	for _, raw := range raws {
		if !blank(raw) {
			last = raw
		}
	}
	same := slices.DeleteFunc(slices.Clone(raws), func(raw json.RawMessage) bool { return blank(raw) || raw[0] != last[0] })
	switch {
	case len(same) < 2 || deep == 0:
	case grows && isText(last):
		return concatenated(same)
	case last[0] == '[':
		return items(same, deep)
	case last[0] == '{':
		return object(same, deep)
	}
	return last
}

// growing are the fields of an item of thoughts that come in pieces.
var growing = []string{"text", "thinking", "summary"}

func object(raws []json.RawMessage, deep int) json.RawMessage {
	of, all := map[string][]json.RawMessage{}, fields{}
	for _, raw := range raws {
		var more fields
		if boundedjson.Unmarshal(raw, &more) != nil {
			return raws[len(raws)-1]
		}
		for name, raw := range more {
			of[name] = append(of[name], raw)
		}
	}
	for name, raws := range of {
		all[name] = joinedPieces(raws, slices.Contains(growing, name), deep-1)
	}
	value, _ := encode(all) // it was decoded
	return value
}

// items is one list of its pieces. The items of a piece are different ones, and each may go on with another one of an
// earlier piece.
func items(lists []json.RawMessage, deep int) json.RawMessage {
	type item struct {
		pieces []json.RawMessage
		last   fields
		list   int // which had its last piece
	}
	var all []item
	open := map[string]int{} // the last item of each index, and without one
	for n, raw := range lists {
		var list []json.RawMessage
		if boundedjson.Unmarshal(raw, &list) != nil {
			return lists[len(lists)-1]
		}
		for _, raw := range list {
			next := fields{}
			_ = boundedjson.Unmarshal(raw, &next) // empty, if it is no object
			at, known := open[string(next["index"])]
			if !known || all[at].list == n || !continues(all[at].last, next) {
				at, all = len(all), append(all, item{last: fields{}})
				open[string(next["index"])] = at
			}
			all[at].pieces, all[at].list = append(all[at].pieces, raw), n
			for name, raw := range next {
				if _, known := all[at].last[name]; !known || !blank(raw) {
					all[at].last[name] = raw
				}
			}
		}
	}
	joined := make([]json.RawMessage, len(all))
	for i, item := range all {
		joined[i] = joinedPieces(item.pieces, false, deep-1)
	}
	value, _ := encode(joined) // it was decoded
	return value
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

// continues reports whether an item goes on with the text of another, which is not signed yet.
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
