package terminal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each step is one writer's call. want is all that the terminal gets.
func TestWritersShareTheScreen(t *testing.T) {
	t.Parallel()
	line := func(s string) func(*Screen) { return func(c *Screen) { c.Line(s) } }
	text := func(s string) func(*Screen) { return func(c *Screen) { c.Text(s) } }
	status := func(s string) func(*Screen) { return func(c *Screen) { c.Status(s) } }
	doing := func(s string) func(*Screen) { return func(c *Screen) { c.Doing(s) } }
	thought := func(s string) func(*Screen) { return func(c *Screen) { c.Thought(s) } }
	for name, c := range map[string]struct {
		steps []func(*Screen)
		want  string
	}{
		"a line before the prompt":    {[]func(*Screen){line("a"), (*Screen).Prompt}, "a\n> "},
		"a line takes its place":      {[]func(*Screen){(*Screen).Prompt, line("a\n")}, "> " + eraseLine + "a\n> "},
		"asked once":                  {[]func(*Screen){(*Screen).Prompt, (*Screen).Prompt}, "> "},
		"asked again":                 {[]func(*Screen){(*Screen).Prompt, (*Screen).Typed, (*Screen).Prompt}, "> > "},
		"a reply in pieces":           {[]func(*Screen){text("a"), text(""), text("b"), (*Screen).EndText, (*Screen).EndText}, "ab\n"},
		"a reply with its own end":    {[]func(*Screen){text("a\n"), (*Screen).EndText}, "a\n"},
		"a line within a reply":       {[]func(*Screen){text("a"), line("b"), text("c"), (*Screen).Prompt}, "a\nb\nc\n> "},
		"a reply to somebody else":    {[]func(*Screen){(*Screen).Prompt, text("a"), (*Screen).EndText}, "> " + eraseLine + "a\n"},
		"nothing is asked at the end": {[]func(*Screen){(*Screen).Prompt, (*Screen).Close, line("a"), (*Screen).Prompt}, "> " + eraseLine + "a\n"},
		"a status":                    {[]func(*Screen){status("1"), status("1"), status("2"), status("")}, "1" + eraseLine + "2" + eraseLine},
		"a status gives way to lines": {[]func(*Screen){status("1"), line("a"), status(""), line("b")}, "1" + eraseLine + "a\n1" + eraseLine + "b\n"},
		"a status behind a reply":     {[]func(*Screen){status("1"), text("a"), status("2"), text("b"), (*Screen).EndText}, "1" + eraseLine + "ab\n2"},
		"a status behind a prompt":    {[]func(*Screen){(*Screen).Prompt, status("1"), (*Screen).Close, status("")}, "> " + eraseLine + "1" + eraseLine},
		"a thought in pieces":         {[]func(*Screen){thought("\n\na"), thought("b\nc"), line("d"), thought("\n"), thought("e\n\nf\n")}, "| ab\n| c\nd\n| e\n| f\n"},
		"a thought within a reply":    {[]func(*Screen){text("a"), thought("b"), text("c"), (*Screen).EndText}, "a\n| b\nc\n"},
		"a thought is ended":          {[]func(*Screen){thought("b"), (*Screen).EndText, (*Screen).Prompt}, "| b\n> "},
		"what is done":                {[]func(*Screen){doing("1"), thought("a"), doing("2"), (*Screen).EndText, line("b"), doing("")}, "1" + eraseLine + "| a\n2" + eraseLine + "b\n2" + eraseLine},
		"a status is before it":       {[]func(*Screen){doing("1"), status("2"), doing("3"), status("")}, "1" + eraseLine + "2" + eraseLine + "2" + eraseLine + "3"},
		"nothing steers the terminal": {[]func(*Screen){text("a\x1b[2J\rb\n"), thought("c\x1b]0;d\x07\n")}, "a\uFFFD[2Jb\n| c\uFFFD]0;d\uFFFD\n"},
		"a status after the user":     {[]func(*Screen){status("1"), (*Screen).Typed, (*Screen).Prompt}, "11" + eraseLine + "> "},
	} {
		var b strings.Builder
		s := NewScreen(&b, false)
		for _, step := range c.steps {
			step(s)
		}
		if b.String() != c.want {
			t.Errorf("%s: %q, want %q", name, b.String(), c.want)
		}
	}
	var b strings.Builder
	if n, err := NewScreen(&b, false).Write([]byte("log\n")); n != 4 || err != nil || b.String() != "log\n" {
		t.Errorf("%d, %v, %q", n, err, b.String())
	}
}

// Without a terminal, too, a reply is made printable and the rest is written line by line.
func TestSplitScreen(t *testing.T) {
	t.Parallel()
	talk := func(s *Screen) {
		s.Doing("tool grep ...")
		s.Thought("hm\n")
		s.Text("a\x1b[31m")
		s.Line("a note")
		s.Tell(Line{"failed", Trouble})
		s.Text("b")
		s.EndText()
		s.JSON("\"\x7f\"\n")
	}
	var reply, side strings.Builder
	talk(NewSplitScreen(&reply, &side, nil))
	if reply.String() != "a\uFFFD[31mb\n\"\\u007f\"\n" || side.String() != "a note\nfailed\n" {
		t.Errorf("%q, %q", reply.String(), side.String())
	}
	var both strings.Builder
	talk(NewSplitScreen(&both, &both, nil))
	if want := "a\uFFFD[31m\na note\nfailed\nb\n\"\\u007f\"\n"; both.String() != want {
		t.Errorf("%q, want %q", both.String(), want)
	}
	// Like 2>&1.
	name := filepath.Join(t.TempDir(), "out")
	var files [2]*os.File
	for i := range files {
		var err error
		if files[i], err = os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
			t.Fatal(err)
		}
		defer files[i].Close()
	}
	talk(NewSplitScreen(files[0], files[1], nil))
	if got, err := os.ReadFile(name); string(got) != both.String() || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	var failed error
	broken := NewSplitScreen(files[0], &side, nil)
	broken.Failed = func(err error) { failed = err }
	_ = files[0].Close()
	if broken.Text("x"); failed == nil {
		t.Error("it did not tell")
	}
}

func TestStyle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		terminal bool
		environ  []string
		want     Style
	}{
		{true, []string{"TERM=xterm", "NO_COLOR="}, true}, {false, nil, false},
		{true, []string{"NO_COLOR=1"}, false}, {true, []string{"TERM=dumb"}, false},
	} {
		if got := StyleFor(c.terminal, c.environ); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	on, off := Style(true), Style(false)
	if got := on.Strong("a") + on.Faint("b") + on.Alert("c") + on.Alert(""); got != "\x1b[1ma\x1b[0m\x1b[2mb\x1b[0m\x1b[1;33mc\x1b[0m" {
		t.Errorf("%q", got)
	}
	if got := off.Strong("a") + off.Faint("b") + off.Trouble("") + off.Alert("c"); got != "abc" {
		t.Errorf("%q", got)
	}
}

func TestNoTerminal(t *testing.T) {
	t.Parallel()
	if in := strings.NewReader(""); IsTerminal(in) || Listens(in) {
		t.Error("a string is no terminal")
	}
}
