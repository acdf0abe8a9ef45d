package main

import (
	"strings"

	"turnstile/internal/chat/terminal"
	"turnstile/pkg/session"
)

// reply shows a reply as it arrives. It writes whole lines, because the replies of several messages
// come at the same time.
type reply struct {
	o     options
	out   *output
	m     awaited
	story terminal.Story
	open  []byte // an incomplete line; it grows in place
}

func newReply(o options, out *output, m awaited) *reply {
	return &reply{o: o, out: out, m: m, story: newStory(o, m.session, m.message.ID)}
}

// newStory shows the turns of a message, and how to decide questions with this program.
func newStory(o options, session, id string) terminal.Story {
	call := o.call(session)
	return terminal.Story{Message: id, Allow: call + " /approve", Deny: call + " /deny"}
}

func (r *reply) see(e session.Event) {
	switch {
	case r.o.json:
		r.out.event(r.m.session, r.m.message.ID, e, r.m.line)
	case e.Type == session.EventText:
		end := strings.LastIndexByte(e.Text, '\n') + 1
		r.open = append(r.open, e.Text[:end]...)
		if end > 0 {
			r.out.text(prefixed(r.m.name(), string(r.open)))
			r.open = r.open[:0]
		}
		r.open = append(r.open, e.Text[end:]...)
	default:
		if terminal.Breaks(e) {
			r.flush()
		}
		r.remark(r.story.See(e))
	}
}

func (r *reply) remark(lines []terminal.Line) {
	if r.o.json {
		return
	}
	for _, l := range lines {
		l.Text = r.m.name() + ": " + l.Text
		r.out.remark(l)
	}
}

func (r *reply) flush() {
	if len(r.open) > 0 {
		r.out.text(prefixed(r.m.name(), string(r.open)))
		r.open = r.open[:0]
	}
}
