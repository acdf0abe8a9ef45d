package mutation_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "turnstile/internal/protocol" // its scripts are changed
	"turnstile/internal/redis/script"
	"turnstile/test/expect"
	"turnstile/test/mutation"
)

func TestApply(t *testing.T) {
	expect.Unraced(t) // it reads all scripts
	for name, c := range map[string]struct{ patch, failure string }{
		"one line":        {"lua: promote.lua\n\n-if run.nostart == s.fence then return refused{by = 'drain'} end\n", ""},
		"not there":       {"lua: promote.lua\n\n-if nobody then return end\n", "0 times"},
		"twice":           {"lua: finish.lua\n\n-  end\n", "times"},
		"of no file":      {"lua: nothing.lua\n\n-x\n", "no Lua file"},
		"names no file":   {"why: so\n\n-x\n", "no lua file and no other one"},
		"changes nothing": {"lua: promote.lua\n\n if run.nostart == s.fence then return refused{by = 'drain'} end\n", "changes nothing"},
		"no hunk":         {"lua: promote.lua\n", "no empty line"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := mutation.Load(archive(t, c.patch))
			var sources map[string]string
			if err == nil {
				sources, err = all[0].Apply()
			}
			if c.failure != "" {
				if err == nil || !strings.Contains(err.Error(), c.failure) {
					t.Fatalf("%v, want an error about %q", err, c.failure)
				}
				return
			}
			if err != nil || len(sources) != 1 {
				t.Fatalf("%d sources, %v", len(sources), err)
			}
			for hash, source := range sources {
				s, _ := script.BySHA(hash)
				if s.Name != "promote" || strings.Contains(source, "run.nostart ==") || !strings.Contains(s.Source, "run.nostart ==") {
					t.Errorf("%s became\n%s", s.Name, source)
				}
			}
		})
	}
}

// archive has one mutation.
func archive(t *testing.T, patch string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "m.txtar")
	if err := os.WriteFile(path, []byte("-- m --\n"+patch), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEdit(t *testing.T) {
	t.Parallel()
	all, err := mutation.Load(archive(t, "file: go.mod\n\n one\n-two\n+three\n"))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := all[0].Edit("zero\none\ntwo\n"); err != nil || text != "zero\none\nthree\n" {
		t.Errorf("%q, %v", text, err)
	}
	for _, text := range []string{"", "one\ntwo\none\ntwo\n"} {
		if _, err := all[0].Edit(text); err == nil || !strings.Contains(err.Error(), "adapt its hunk") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A change of a Lua file reaches the programs: the overlay has the scripts generated from it.
func TestOverlayOfLua(t *testing.T) {
	expect.Unraced(t) // as above
	t.Parallel()
	for _, d := range plantedDefects(t) {
		if !strings.HasSuffix(d.Head["file"], ".lua") {
			continue
		}
		file, err := mutation.Overlay(t.TempDir(), map[string][]mutation.Mutation{root: {d}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "/internal/protocol/scripts/") {
			t.Errorf("%s changes no script: %s", d.Name, text)
		}
	}
}
