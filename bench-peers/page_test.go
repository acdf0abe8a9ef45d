package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"turnstile/bench/peers/internal/history"
)

// measured are results in which Restate was not run and asynq broke the order.
func measured() results {
	all := results{}
	for _, s := range settings() {
		all[s] = map[string]*entry{}
		for i, p := range peers {
			e := &entry{}
			for round := range 3 {
				f := figures{
					rate: float64(1000*(i+1) + 10*round), handled: 5000,
					client: time.Duration(10*(i+1)) * time.Microsecond, server: 5 * time.Microsecond,
				}
				if p.name == asynqRaw {
					f.verdict = history.Verdict{OutOfOrder: 400, Overlaps: 100}
				}
				e.runs = append(e.runs, f)
			}
			if p.name == "Restate" {
				e.runs, e.notRun = nil, "no | program"
			}
			all[s][p.name] = e
		}
	}
	return all
}

func TestTables(t *testing.T) {
	t.Parallel()
	text := tables(measured(), peers)
	for _, want := range []string{
		"| 1,000 x 10, in memory | messages/s |", "| 10,000 x 1, durable | messages/s |",
		"| Turnstile | 1,010 (1,000-1,020) | 0.50 x | 5,000 | 15 (15-15) us: 10 + 5 | 0.60 x | 0, 0 | 0 | 0 |\n",
		"| asynq, one queue | 2,010 (2,000-2,020) |  | 5,000 | 25 (25-25) us: 20 + 5 |  | 0, 0 | 1,200 | 300 |\n",
		"| Restate | not run: no / program |  |  |  |  |  |  |  |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestPictures(t *testing.T) {
	t.Parallel()
	for name, svg := range map[string]string{
		"rate":      string(ratePicture(measured(), peers).SVG()),
		"processor": string(processorPicture(measured(), peers).SVG()),
	} {
		if strings.Count(svg, mark) != 5 { // each setting, and the note
			t.Errorf("%s: %d marks", name, strings.Count(svg, mark))
		}
		if strings.Count(svg, "not run: no | program") != 4 {
			t.Errorf("%s does not say that Restate was not run", name)
		}
	}
}

func TestLongReasonsAreCut(t *testing.T) {
	t.Parallel()
	if got := cut(strings.Repeat("ä", 80)); got != strings.Repeat("ä", 80) {
		t.Errorf("what fits is cut: %q", got)
	}
	if got := cut(strings.Repeat("ä", 81)); got != strings.Repeat("ä", 79)+"…" {
		t.Errorf("%q", got)
	}
}

func TestPageIsRewritten(t *testing.T) {
	t.Parallel()
	docs := t.TempDir()
	path := filepath.Join(docs, "benchmarks.md")
	if err := os.WriteFile(path, []byte("before\n"+begin+"old\n"+end+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(docs, "new\n", measured(), peers); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if want := "before\n" + begin + "new\n" + end + "\nafter\n"; err != nil || string(page) != want {
		t.Errorf("%q, want %q", page, want)
	}
	for _, name := range []string{"peers-rate.svg", "peers-processor.svg"} {
		if svg, err := os.ReadFile(filepath.Join(docs, name)); err != nil || !strings.HasPrefix(string(svg), "<svg ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := replace("a page without marks", "new"); err == nil {
		t.Error("a page without marks was rewritten")
	}
}

// The page in docs/internals has the marks, and the list of each peer's gaps.
func TestPageInDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(folder(), "..", "docs", "internals", "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replace(string(page), ""); err != nil {
		t.Error(err)
	}
	for _, p := range peers {
		if !strings.Contains(string(page), p.lacks) {
			t.Errorf("docs/internals/benchmarks.md does not say what %s lacks: %s", p.name, p.lacks)
		}
	}
}
