package protocol

import (
	"encoding/json"
	"fmt"
	"math"

	"turnstile/internal/text/boundedjson"
	"turnstile/pkg/session"
)

// DecodeEntry reads an entry of a transcript. In place of an unreadable one it returns an entry
// of session.RoleSystem that says why.
func DecodeEntry(line string) session.Entry {
	var e session.Entry
	if err := boundedjson.Unmarshal([]byte(line), &e); err != nil {
		return session.Entry{Role: session.RoleSystem, Text: fmt.Sprintf("[an entry of %d bytes that cannot be read: %v]", len(line), err)}
	}
	return e
}

// DecodeEntries calls DecodeEntry for each line.
func DecodeEntries(lines []string) []session.Entry {
	entries := make([]session.Entry, len(lines))
	for i, line := range lines {
		entries[i] = DecodeEntry(line)
	}
	return entries
}

// taskRest is how many bytes a task may have apart from its payload: its names, a sender's headers,
// and the errors of the attempts so far.
const taskRest = 256 << 10

// TaskMost is the most bytes of a message's task in Redis. A worker does not read a larger task: it
// archives the task with its length in place of its content.
func TaskMost(l session.Limits) int64 { return int64(l.WithDefaults().MessageBytes) + taskRest }

// entryMost is the most bytes of one stored transcript entry: a sixteenth of TranscriptBytes, or
// the maximum of a message if that is more.
func (c *Consumer) entryMost() int { return max(c.cfg.TranscriptBytes/16, int(TaskMost(c.cfg.Limits))) }

// bounded shortens the entries that are too long.
func (c *Consumer) bounded(entries []session.Entry) []session.Entry {
	short, most := entries, c.entryMost()
	for i, e := range entries {
		if atMost(e) <= most {
			continue
		}
		if text, err := marshal(e); err == nil && len(text) <= most {
			continue
		}
		if &short[0] == &entries[0] { // copy once: the caller keeps its entries
			short = append([]session.Entry(nil), entries...)
		}
		if e.Sent != nil { // what no reader sees goes first
			e.Sent = nil
			if text, err := marshal(e); err == nil && len(text) <= most {
				short[i] = e
				continue
			}
		}
		short[i] = shortened(e, most)
	}
	return short
}

// atMost is an upper bound of an entry's stored length: JSON writes a byte with at most six. Few
// entries have what a program brought or a model's server sent: those are measured.
func atMost(e session.Entry) int {
	n := 1024 + 6*len(e.Text)
	if t := e.Tool; t != nil {
		n += 6*(len(t.Name)+len(t.CallID)+len(t.Error)) + 2*(len(t.Input)+len(t.Output))
	}
	if e.Brought != nil || e.Sent != nil {
		return math.MaxInt
	}
	for name, value := range e.Meta {
		n += 6 * (len(name) + len(value))
	}
	for _, a := range e.Attachments {
		n += 100 + 6*(len(a.Name)+len(a.Mime)+len(a.URL)+len(a.Path))
	}
	return n
}

// shortened returns an entry that says how much of it was left out. It leaves a user's text whole:
// the limits of a message bound it.
func shortened(e session.Entry, most int) session.Entry {
	part := most / 32
	e.Text = leaveOut(e.Text, 3*part)
	if e.Tool != nil {
		tool := *e.Tool
		tool.Name, tool.CallID, tool.Error = leaveOut(tool.Name, part/4), leaveOut(tool.CallID, part/4), leaveOut(tool.Error, part/4)
		for _, raw := range []*json.RawMessage{&tool.Input, &tool.Output} {
			if len(*raw) > part {
				*raw = fmt.Appendf(nil, `"[%d bytes are left out]"`, len(*raw))
			}
		}
		e.Tool = &tool
	}
	return e
}

// leaveOut returns the beginning of a text, and how much was left out.
func leaveOut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s %d bytes are left out", CutText(text, most), len(text)-most)
}
