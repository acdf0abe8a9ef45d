package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"turnstile/pkg/session"
	"turnstile/pkg/sessionqueue"
)

// indent is where the values of show begin.
const indent = 12

// print writes a session for people.
func (s shown) print(w io.Writer) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-*s%s\n", indent, name, continued(fmt.Sprintf(format, args...), indent))
	}
	row("session", "%s", s.Session)
	row("session id", "%s", orDash(s.SessionID))
	if s.Phase == sessionqueue.PhaseIdle {
		row("phase", "%s", s.Phase)
	} else {
		row("phase", "%s for %s", s.Phase, s.running.Round(100*time.Millisecond))
		row("worker", "%s", s.Worker)
		row("turn", "%s for message %s", s.Turn, strings.Join(s.Messages, ", "))
	}
	row("fence", "%d", s.Fence)
	row("waiting", "%d pending, %d scheduled, %d archived", s.Pending, s.Scheduled, s.Archived)
	row("resume", "%s", s.Resume)
	if len(s.Followups) > 0 {
		fmt.Fprintf(&b, "\nfollow-ups (%d)\n", len(s.Followups))
		for _, f := range s.Followups {
			fmt.Fprintf(&b, "  %s, %s, %s: %s\n", f.ID, f.Mode, f.State, continued(f.Text, 4))
		}
	}
	fmt.Fprintf(&b, "\ntranscript (%d)\n", len(s.Transcript))
	for _, e := range s.Transcript {
		mark := ""
		if e.Interrupted {
			mark = " (interrupted)"
		}
		head := fmt.Sprintf("  %s  %-9s  ", time.UnixMilli(e.At).Local().Format("2006-01-02 15:04:05"), e.Role)
		fmt.Fprintf(&b, "%s%s%s\n", head, continued(entryText(e), len(head)), mark)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// String is the record in words.
func (r shownResume) String() string {
	var parts []string
	if r.Pending {
		parts = append(parts, "to be resumed ("+r.Reason+")")
	}
	if r.Interruptions > 0 {
		parts = append(parts, fmt.Sprintf("cut off %d times in a row", r.Interruptions))
	}
	if r.Suspended {
		parts = append(parts, "suspended: the next message begins a new transcript")
	}
	return orDash(strings.Join(parts, ", "))
}

func entryText(e session.Entry) string {
	if e.Tool == nil {
		return e.Text
	}
	text := e.Tool.Name + " " + string(e.Tool.Input)
	switch {
	case e.Tool.Error != "":
		text += " failed: " + e.Tool.Error
	case e.Tool.Output != nil:
		text += " -> " + string(e.Tool.Output)
	}
	return text
}

// continued indents all lines but the first, and takes out what would steer the
// terminal: these are other people's words.
func continued(text string, column int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '\uFFFD'
		}
		return r
	}, text)
	return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", column))
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
