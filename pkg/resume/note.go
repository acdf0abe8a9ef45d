package resume

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"turnstile/pkg/session"
)

// droppedLen is how many characters of a dropped message the note shows.
const droppedLen = 160

// Facts are the contents of a turn's note.
type Facts struct {
	// Record is the session's record before this turn.
	Record Record

	// Freshness is the age up to which a mark gets a note. 0: any age.
	Freshness time.Duration

	// History is the transcript before this turn, oldest entry first. Note reads only the last
	// entry.
	History []session.Entry

	// Dropped are the texts of messages that a full queue has dropped since the last turn, oldest
	// first. Omitted counts further ones before them.
	Dropped []string
	Omitted int
}

// Note returns the system note with which an agent's turn begins, in one pair of brackets. It
// returns "" if there is nothing to report.
//
// A mark precedes a history that ends in a tool result. A mark that is too old suppresses the
// report of that tool result too, because it comes from the same old turn.
//
// The note is for the agent. It is not stored as the user's text.
func Note(f Facts) string {
	var says []string
	switch {
	case f.Record.Fresh(f.Freshness):
		says = append(says, "Your previous turn was interrupted by "+cause(f.Record.Reason)+". "+
			"The conversation history is intact. If it holds tool results that were not dealt with, "+
			"deal with them first and summarise what was done; then turn to the new message below, "+
			"which may be the one that the interrupted turn was about.")
	case f.Record.Pending || f.Record.Suspended:
		// Too old, or the transcript is a new one.
	case endsInTool(f.History):
		says = append(says, "The conversation history is intact and ends in a tool result that you haven't responded to yet. "+
			"Deal with it first and summarise what was done; then turn to the new message below.")
	}
	if len(f.Dropped) > 0 || f.Omitted > 0 {
		says = append(says, dropped(f.Dropped, f.Omitted))
	}
	if len(says) == 0 {
		return ""
	}
	return "[System note: " + strings.Join(says, " ") + "]"
}

// cause returns a reason in two vocabularies. Transcripts that were imported from other gateways say
// "gateway restart"; here the program that runs turns is called a worker.
func cause(reason string) string {
	switch reason {
	case ReasonRestart, "":
		return "a gateway restart: the worker that ran it was restarted"
	case ReasonShutdown:
		return "a gateway shutdown: the worker that ran it was shut down"
	case ReasonLeaseLost:
		return "a lost lease: its worker lives, but could not renew the lease in time"
	case ReasonCrash:
		return "a gateway interruption: its worker died, or lost its connection to Redis"
	}
	return "a gateway interruption"
}

func endsInTool(history []session.Entry) bool {
	if len(history) == 0 {
		return false
	}
	last := history[len(history)-1]
	return last.Role == session.RoleTool && (last.Tool == nil || !last.Tool.Client) // whose result comes with the message
}

func dropped(texts []string, omitted int) string {
	var b strings.Builder
	if n := len(texts) + omitted; n == 1 {
		b.WriteString("1 message was")
	} else {
		fmt.Fprintf(&b, "%d messages were", n)
	}
	b.WriteString(" dropped from the line while you were busy")
	switch {
	case len(texts) == 0:
		b.WriteByte('.')
	case omitted > 0:
		fmt.Fprintf(&b, "; you see here the beginning of each of the newest %d, and not of %d older:", len(texts), omitted)
	default:
		b.WriteString("; you see here the beginning of each:")
	}
	for _, text := range texts {
		b.WriteString("\n- \"" + oneLine(text) + "\"")
	}
	return b.String()
}

// oneLine returns the beginning of a text in one line that cannot end its quotes or the note, nor look like another
// note or a name line: brackets are round, and quotation marks are single. It reads only that far, because a text may
// have a megabyte.
func oneLine(text string) string {
	var line []rune
	gap := false
	for _, r := range text {
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			gap = len(line) > 0
			continue
		}
		switch {
		case unicode.Is(unicode.Ps, r):
			r = '('
		case unicode.Is(unicode.Pe, r):
			r = ')'
		case unicode.Is(unicode.Quotation_Mark, r):
			r = '\''
		case !unicode.IsPrint(r):
			continue
		}
		if gap {
			line = append(line, ' ')
			gap = false
		}
		line = append(line, r)
		if len(line) > droppedLen {
			line = append(line[:droppedLen-1], '…')
			break
		}
	}
	return string(line)
}
