package script_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"turnstile/test/expect"
)

var byPosition = regexp.MustCompile(`(KEYS|ARGV)\[\d`)

// A script names its keys and arguments once, in its first lines. internal/protocol/lua tests its
// own scripts.
func TestScriptsNameTheirKeysAndArguments(t *testing.T) {
	t.Parallel()
	scripts := 0
	expect.OK(t, filepath.WalkDir("../../../pkg", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".lua" {
			return err
		}
		scripts++
		text, err := os.ReadFile(path)
		if at := byPosition.Find(text); at != nil {
			t.Errorf("%s reads %s...]", path, at)
		}
		return err
	}))
	if scripts < 5 {
		t.Errorf("found %d scripts: is this the directory?", scripts)
	}
}
