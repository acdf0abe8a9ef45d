package operator

import (
	"strings"
	"testing"
	"time"

	"turnstile/internal/http/gateway"
	"turnstile/internal/text/printable"
)

func TestAge(t *testing.T) {
	t.Parallel()
	for want, seconds := range map[string]int{"0s": 0, "59s": 59, "1m": 60, "59m": 3599, "1h": 3600, "47h": 48*3600 - 1, "2d": 48 * 3600} {
		if got := age(time.Duration(seconds) * time.Second); got != want {
			t.Errorf("%d s: %s, want %s", seconds, got, want)
		}
	}
	for text, want := range map[string]string{
		strings.Repeat("ä", 59): strings.Repeat("ä", 59), strings.Repeat("ä", 60): strings.Repeat("ä", 59) + "…",
		"a\tb": "a b", "a\n\n": "a", "a\n\nb": "a …", "": "",
	} {
		if got := firstLine(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestResumeInWords(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 5, 0, 0, 0, time.Local)
	before, after := at.Add(-time.Second), at.Add(time.Second)
	marked := gateway.Resume{Pending: true, Reason: "crash", MarkedAt: &at}
	for want, c := range map[string]struct {
		gateway.Resume
		turn *time.Time
	}{
		"-": {},
		"the next turn resumes (crash), interrupted 2 times in a row": {gateway.Resume{Pending: true, Reason: "crash", Interruptions: 2}, nil},
		"this turn resumes (crash), interrupted 2 times in a row":     {gateway.Resume{Pending: true, Reason: "crash", Interruptions: 2}, &at},
		"the next turn resumes (crash at 2026-11-21 05:00:00)":        {marked, nil},
		"this turn resumes (crash at 2026-11-21 05:00:00)":            {marked, &after},
		"suspended: the next message begins a new transcript":         {gateway.Resume{Suspended: true}, nil},
	} {
		if got := resumeText(c.Resume, c.turn); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	// A drain marks the running turn, and the next one resumes it.
	if got := resumeText(marked, &before); got != "the next turn resumes (crash at 2026-11-21 05:00:00)" {
		t.Errorf("a turn that is marked: %q", got)
	}
}

// Text for one line stays on it, and in its cell.
func TestNoNameBreaksALine(t *testing.T) {
	t.Parallel()
	var out, stderr strings.Builder
	p := &Program{Name: "worker", stdout: printable.NewWriter(&out), stderr: printable.NewWriter(&stderr)}
	table := p.table()
	table.row("NAME", "STATE")
	table.row("a\nroot\tdone\u2028forged\tx", "idle")
	if err := table.end(); err != nil {
		t.Fatal(err)
	}
	if err := p.say("Session %s is forgotten.", "a\u2029\nWorker b"); err != nil {
		t.Fatal(err)
	}
	p.Complain("no session a\nworker: all is well")
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 4 || strings.Join(strings.Fields(lines[1]), " ") != "a root done forged x idle" || lines[2] != "Session a  Worker b is forgotten." {
		t.Errorf("%q", lines)
	}
	if stderr.String() != "worker: no session a worker: all is well\n" {
		t.Errorf("%q", stderr.String())
	}
}
