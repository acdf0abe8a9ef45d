package model

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The example's file can be loaded, and its tools work.
func TestExampleTools(t *testing.T) {
	t.Parallel()
	tools, err := LoadTools("../../../examples/tools/tools.json")
	if err != nil || len(tools) != 2 {
		t.Fatal(tools, err)
	}
	if e := use(t, Config{}, tools[0], `{}`); !strings.Contains(string(e.Output), time.Now().UTC().Format("2006-01-")) {
		t.Errorf("%s %s", e.Output, e.Error)
	}
	if _, err := osexec.LookPath("python3"); err != nil {
		if on, _ := strconv.ParseBool(os.Getenv("CI")); on {
			t.Fatal("CI needs python3 for this")
		}
		t.Skip("NOT TESTED: THE TOOL days-between, FOR THERE IS NO python3 ON PATH")
	}
	if e := use(t, Config{}, tools[1], `{"from":"2026-11-21","to":"2026-12-24"}`); string(e.Output) != `{"days":33}` {
		t.Errorf("%s %s", e.Output, e.Error)
	}
	if e := use(t, Config{}, tools[1], `{"from":"tomorrow"}`); !strings.HasPrefix(e.Error, "exit status 1: give two dates") {
		t.Errorf("%s %s", e.Output, e.Error)
	}
}

// The page's file can be loaded, and the page names every field of a tool.
func TestDocsTools(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/agents/model.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(page), "\n```json tools\n")
	block, _, _ = strings.Cut(block, "\n```\n")
	if !ok {
		t.Fatal("no example")
	}
	path := filepath.Join(t.TempDir(), "tools.json")
	if err := os.WriteFile(path, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	if tools, err := LoadTools(path); err != nil || len(tools) == 0 {
		t.Error(err)
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Tool]()) {
		if name := strings.ToLower(f.Name); !strings.Contains(string(page), "\n| `"+name+"` |") {
			t.Errorf("the field %s is not in the table", name)
		}
	}
}
