//go:build linux

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// The picture in the repository is of today's scene, and is XML.
func TestPictureShowsTheScene(t *testing.T) {
	t.Parallel()
	f, err := os.Open("../recording.svg")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	texts := linesOf(t, f)
	lines := []string{"$ " + workerLine}
	for _, s := range scene {
		lines = append(lines, "$ "+s.line)
	}
	for _, line := range lines {
		if !slices.Contains(texts, line) {
			t.Errorf("docs/recording.svg does not show %q: run make recording", line)
		}
	}
}

// linesOf are the texts of an SVG, each with those of its spans.
func linesOf(t *testing.T, r io.Reader) []string {
	t.Helper()
	var texts []string
	within := false
	d := xml.NewDecoder(r)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "text" {
				within, texts = true, append(texts, "")
			}
		case xml.EndElement:
			within = within && token.Name.Local != "text"
		case xml.CharData:
			if within {
				texts[len(texts)-1] += string(token)
			}
		}
	}
}

func TestScreen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		output string
		rows   []string
		fails  bool
	}{
		"lines":                {"a\r\nb", []string{"a", "b"}, false},
		"overwritten":          {"abc\rx", []string{"xbc", ""}, false},
		"cleared":              {"tool ...\r\x1b[Kdone", []string{"done", ""}, false},
		"coloured":             {"\x1b[1;33ma\x1b[0mb", []string{"ab", ""}, false},
		"scrolled":             {"a\r\nb\r\nc", []string{"b", "c"}, false},
		"too long a line":      {strings.Repeat("x", columns) + "y", []string{strings.Repeat("x", columns), "y"}, false},
		"unknown sequence":     {"\x1b[2J", []string{"", ""}, true},
		"unknown colour":       {"\x1b[44m", []string{"", ""}, true},
		"no sequence":          {"\x1bcx", []string{"x", ""}, true},
		"unknown control char": {"\t", []string{"", ""}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScreen(2)
			s.write(c.output)
			for y, want := range c.rows {
				got := ""
				for _, cell := range s.rows[y] {
					got += string(cell.char)
				}
				if got != want {
					t.Errorf("row %d: %q, want %q", y, got, want)
				}
			}
			if (s.err != nil) != c.fails {
				t.Errorf("error: %v", s.err)
			}
		})
	}
}

// Each row is drawn as it was, from when it was so until it changed.
func TestDraw(t *testing.T) {
	t.Parallel()
	now := time.Second
	p := newPane("a & b", 1, func() time.Duration { return now })
	p.print("<")
	now = 3 * time.Second
	p.print("\x1b[2m>")
	p.close()
	p.print("not shown")
	picture := draw(10*time.Second, p)
	if got := linesOf(t, strings.NewReader(picture)); !slices.Equal(got, []string{"a & b", "<", "<>"}) {
		t.Errorf("texts: %q", got)
	}
	for _, want := range []string{
		"@keyframes k0{0%{visibility:hidden}10.000%{visibility:visible}30.000%{visibility:hidden}}",
		"@keyframes k1{0%{visibility:hidden}30.000%{visibility:visible}}",
		`<tspan class="faint">&gt;</tspan>`,
		"animation-duration:10.00s",
	} {
		if !strings.Contains(picture, want) {
			t.Errorf("no %s in %s", want, picture)
		}
	}
}

func TestTheMachinesNameIsNotDrawn(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{"": "a box-1 b", "box": "a vm0-1 b", "b": "a box-1 b", "other": "a box-1 b"} {
		if got := withoutHost("a box-1 b", host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}
