package main

import (
	"strings"

	"turnstile/internal/terminal"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// reply shows a reply as it comes. It writes whole lines, because the replies of several messages
// come at the same time.
type reply struct {
	a     *results
	m     awaited
	story terminal.Story
	open  []byte // an incomplete line; it grows in place
}

func newReply(a *results, m awaited) *reply {
	return &reply{a: a, m: m, story: newStory(a.b.o, m.session, m.m.ID)}
}

// newStory shows the turns of a message. It tells the user how to decide questions with this
// program.
func newStory(o options, session, id string) terminal.Story {
	call := o.call(session)
	return terminal.Story{Message: id, Allow: call + " /approve", Deny: call + " /deny"}
}

func (r *reply) see(e session.Event) {
	out := r.a.b.out
	switch {
	case r.a.b.o.json:
		out.event(r.m.session, r.m.m.ID, e, r.m.line)
	case e.Type == string(agent.EventText):
		end := strings.LastIndexByte(e.Text, '\n') + 1
		r.open = append(r.open, e.Text[:end]...)
		if end > 0 {
			out.text(prefixed(r.m.name(), string(r.open)))
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
	if r.a.b.o.json {
		return
	}
	for _, l := range lines {
		l.Text = r.m.name() + ": " + l.Text
		r.a.b.out.remark(l)
	}
}

func (r *reply) flush() {
	if len(r.open) > 0 {
		r.a.b.out.text(prefixed(r.m.name(), string(r.open)))
		r.open = r.open[:0]
	}
}
