package architecture

import (
	"os"
	"path/filepath"
	"testing"

	"turnstile/internal/protocol/lua"
)

// The scripts that the programs send are generated from the sources, and not edited.
func TestScriptsAreFresh(t *testing.T) {
	t.Parallel()
	want, err := lua.Generate(lua.Files())
	if err != nil {
		t.Fatal(err)
	}
	const dir = "../../internal/protocol/scripts"
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		made, wanted := want[file.Name()]
		if wanted && made != string(text) || !wanted && lua.Generated(string(text)) {
			t.Errorf("%s is out of date: go generate ./internal/protocol/...", file.Name())
		}
		delete(want, file.Name())
	}
	for name := range want {
		t.Errorf("%s is missing: go generate ./internal/protocol/...", name)
	}
}
