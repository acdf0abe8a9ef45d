package gateway_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"turnstile/internal/http/gateway"
	"turnstile/test/expect"
)

const page = "../../../docs/http.md"

// The snippets of the page run as they are.
func TestSnippetsOfThePage(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	text, err := os.ReadFile(page)
	expect.OK(t, err)
	block := func(language string) string {
		t.Helper()
		_, rest, ok := strings.Cut(string(text), "```"+language+"\n")
		code, _, ok2 := strings.Cut(rest, "```\n")
		if !ok || !ok2 {
			t.Fatalf("the page has no %s", language)
		}
		return code
	}
	r := newRig(t)
	r.worker()
	for _, c := range []struct{ language, file, interpreter string }{
		{"python", "say.py", "python3"},
		{"ts", "say.mjs", "node"},
	} {
		interpreter, err := exec.LookPath(c.interpreter)
		if err != nil {
			t.Logf("%s is not here, so its snippet does not run", c.interpreter)
			continue
		}
		code := block(c.language)
		if c.language == "ts" {
			code = strings.ReplaceAll(code, "!", "") // the rest is JavaScript
		}
		file := filepath.Join(t.TempDir(), c.file)
		expect.OK(t, os.WriteFile(file, []byte(code), 0o600))
		cmd := exec.CommandContext(t.Context(), interpreter, file, "good", "morning")
		cmd.Env = append(os.Environ(), "TURNSTILE_URL="+r.url)
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != "echo: good morning\n" {
			t.Errorf("%s: %v\n%s", c.language, err, out)
		}
	}
}

var codeCell = regexp.MustCompile("`([a-z_]+)`")

// The page has each code with its status.
func TestPageHasTheCodes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	expect.OK(t, err)
	left := gateway.Meanings()
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(cells[1], " 4") && !strings.HasPrefix(cells[1], " 5") {
			continue
		}
		for _, m := range codeCell.FindAllStringSubmatch(cells[2], -1) {
			code := gateway.Code(m[1])
			if want := http.StatusText(left[code]); want == "" || !strings.HasPrefix(cells[1], " "+strconv.Itoa(left[code])) {
				t.Errorf("the page has %s at%s", code, cells[1])
			}
			delete(left, code)
		}
	}
	if len(left) > 0 {
		t.Errorf("the page lacks %v", left)
	}
}
