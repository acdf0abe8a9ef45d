package operator

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"turnstile/internal/chat/terminal"
	"turnstile/internal/http/gateway"
	"turnstile/internal/protocol/agents"
	"turnstile/internal/text/printable"
	"turnstile/pkg/session"
)

// indent is the column of show's values.
const indent = 12

// print writes a session as text.
func (s shown) print(w io.Writer) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-*s%s\n", indent, name+" ", printable.Line(fmt.Sprintf(format, args...)))
	}
	row("session", "%s", s.Session)
	row("transcript id", "%s", orDash(s.TranscriptID))
	if s.Title != "" {
		row("title", "%s (by the %s)", s.Title, s.TitleBy)
	}
	row("state", "%s", parkedText(stateText(s.State, s.Paused, s.Resume.Suspended, s.idle, s.Needs), s.Phase, s.Until, s.Left, s.Question != nil || s.WaitsFor != ""))
	if s.Phase != session.PhaseIdle {
		row("worker", "%s", orDash(s.Worker))
		row("turn", "%s for message %s, begun %s ago", s.Turn, strings.Join(s.Messages, ", "), s.Running.Round(100*time.Millisecond))
	}
	if q := s.Question; q != nil {
		text := fmt.Sprintf("%s: /approve %d or /deny %[2]d", q.Name, q.Number)
		if s.Until != nil {
			text += fmt.Sprintf(", before %s", clock(*s.Until))
		}
		for i, m := range s.TurnMessages {
			if i == 0 && m.Who() != "" {
				text += ", for " + m.Who()
			}
		}
		row("asks", "%s", text)
	}
	if s.WaitsFor != "" {
		row("waits for", "%s", s.WaitsFor)
	}
	if s.Agent != "" && s.Agent != agents.Default {
		row("agent", "%s", s.Agent)
	}
	row("fence", "%d", s.Fence)
	row("messages", "%d pending, %d delayed, %s", s.Pending, s.Scheduled, count(s.Archived, "dead letter", "dead letters"))
	if s.Queue != (session.QueueSettings{}) {
		row("queue", "%s", s.Queue)
	}
	if s.Dropped > 0 {
		row("dropped", "%s from the full line; the next turn gets a note", count(s.Dropped, "message", "messages"))
	}
	if s.ReplyTo != "" {
		row("reply to", "%s", s.ReplyTo)
	}
	if o := s.Outbox; o != (gateway.Outbox{}) {
		row("outbox", "%s owed, %s to be made, %d given up: %s outbox %s", count(o.Owed, "outcome", "outcomes"), count(o.Waiting, "delivery", "deliveries"), o.GivenUp, s.program, s.Session)
	}
	for _, f := range s.Failing {
		row("delivery", "%s does not take %s since %s%s", f.Destination, count(f.Count, "outcome", "outcomes"), clock(f.Since), strings.TrimSuffix(": "+f.Error, ": "))
	}
	row("resume", "%s", resumeText(s.Resume, s.Since))
	if len(s.Followups) > 0 {
		fmt.Fprintf(&b, "\nfollow-ups (%d)\n", len(s.Followups))
		for _, f := range s.Followups {
			head := printable.Line(fmt.Sprintf("%s, %s, %s", f.ID, f.Mode, f.State))
			fmt.Fprintf(&b, "  %s: %s\n", head, continued(f.Text, 4))
		}
	}
	s.printDead(&b)
	fmt.Fprintf(&b, "\ntranscript (%d)\n", len(s.Transcript))
	for _, e := range s.Transcript {
		mark := ""
		switch {
		case e.Ended != nil:
			mark = printable.Line(" (" + e.Ended.String() + ")")
		case e.Interrupted:
			mark = " (interrupted)"
		}
		head := fmt.Sprintf("  %s  %-9s  ", clock(e.At.Time), printable.Line(string(e.Role)))
		fmt.Fprintf(&b, "%s%s%s\n", head, continued(entryText(e), len(head)), mark)
	}
	s.printTurn(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// printDead lists dead letters with their reasons.
func (s shown) printDead(b *strings.Builder) {
	if len(s.Dead) == 0 {
		return
	}
	fmt.Fprintf(b, "\ndead letters (%d)\n", s.Archived)
	for _, d := range s.Dead {
		why := strings.TrimPrefix(cmp.Or(d.Detail, d.Error), string(d.Status)+": ")
		if why != "" && why != string(d.Status) {
			why = ": " + firstLine(why)
		}
		fmt.Fprintf(b, "  %s, %s ago, %s%s\n", printable.Line(d.ID), age(d.Age), printable.Line(string(d.Status)), why)
	}
	if more := s.Archived - len(s.Dead); more > 0 {
		fmt.Fprintf(b, "  and %d more: %s dead %s\n", more, s.program, printable.Line(s.Session))
	}
}

// printTurn prints the running turn's messages and events.
func (s shown) printTurn(b *strings.Builder) {
	if len(s.TurnMessages) == 0 {
		return
	}
	if s.Phase == session.PhaseParked {
		b.WriteString("\nparked turn\n")
	} else {
		b.WriteString("\nrunning turn\n")
	}
	for _, m := range s.TurnMessages {
		head := m.ID
		if m.Who() != "" {
			head += ", " + m.Who()
		}
		if !m.At.IsZero() {
			head += ", " + clock(m.At)
		}
		fmt.Fprintf(b, "  %s: %s\n", printable.Line(head), continued(m.Text, 4))
	}
	if done := story(s.TurnMessages[0].ID, s.Events); done != "" {
		fmt.Fprintf(b, "  so far\n    %s\n", continued(done, 4))
	}
	timeline(b, s.Events)
}

// story is a turn's events, formatted as by --follow.
func story(message string, events []session.Event) string {
	var b strings.Builder
	t := terminal.Teller{Story: terminal.Story{Message: message}, Screen: terminal.NewSplitScreen(&b, &b, nil)}
	for _, e := range events {
		t.See(e)
	}
	t.Leave()
	return strings.TrimRight(b.String(), "\n")
}

// resumeText is the record as text. turn is the start of the running turn, or nil. The turn resumes
// from the mark if the mark is older.
func resumeText(r gateway.Resume, turn *time.Time) string {
	var parts []string
	if r.Pending {
		part := "the next turn resumes ("
		if turn != nil && (r.MarkedAt == nil || !r.MarkedAt.After(*turn)) {
			part = "this turn resumes ("
		}
		part += r.Reason
		if r.MarkedAt != nil {
			part += " at " + clock(*r.MarkedAt)
		}
		parts = append(parts, part+")")
	}
	if r.Interruptions > 0 {
		parts = append(parts, "interrupted "+count(r.Interruptions, "time", "times in a row"))
	}
	if r.Suspended {
		parts = append(parts, "suspended: the next message begins a new transcript")
	}
	return orDash(strings.Join(parts, ", "))
}

func entryText(e session.Entry) string {
	switch {
	case e.Tool == nil && e.Text == "" && e.Brought != nil && len(e.Brought.Results) > 0:
		return fmt.Sprintf("results of %d calls", len(e.Brought.Results))
	case e.Tool == nil && e.Text == "" && e.Brought != nil:
		return fmt.Sprintf("what was said before, %d entries", len(e.Brought.Past))
	case e.Tool == nil && gateway.Who(e.Meta) != "":
		return "[" + gateway.Who(e.Meta) + "] " + e.Text
	case e.Tool == nil:
		return e.Text
	}
	text := e.Tool.Name + " " + string(e.Tool.Input)
	switch {
	case e.Tool.Client:
		text += " [of the client's program]"
	case e.Tool.Error != "":
		text += " failed: " + e.Tool.Error
	case e.Tool.Output != nil:
		text += " -> " + string(e.Tool.Output)
	}
	if e.Tool.Took > 0 {
		text += fmt.Sprintf(" (%v)", time.Duration(e.Tool.Took))
	}
	if e.Tool.Run != "" {
		text += " [kept of the interrupted run " + e.Tool.Run + "]"
	}
	return text
}

// continued makes a text printable, and indents all lines but the first.
func continued(text string, column int) string {
	lines := strings.Split(printable.Text(text), "\n")
	for i := 1; i < len(lines); i++ {
		if lines[i] != "" {
			lines[i] = strings.Repeat(" ", column) + lines[i]
		}
	}
	return strings.Join(lines, "\n")
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// clock is a time in the local time zone.
func clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// age is a duration in its largest unit.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// firstLineLen is how many characters of a text a table shows.
const firstLineLen = 60

// firstLine is the beginning of a text's first line, for a table.
func firstLine(text string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = printable.Line(line)
	runes := []rune(line)
	if len(runes) >= firstLineLen {
		return string(runes[:firstLineLen-1]) + "…"
	}
	if strings.TrimSpace(rest) != "" {
		return line + " …"
	}
	return line
}
