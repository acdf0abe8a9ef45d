package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"turnstile/test/expect"
)

// patches are the newest patches of the images by the table of docs/security.md, each with the day of the look.
func patches(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/security.md"))
	expect.OK(t, err)
	found := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| ([0-9.]+) \\| ([0-9-]{10}) \\| .+ \\|$").FindAllStringSubmatch(string(page), -1) {
		found[row[1]+":"+row[2]] = row[3]
	}
	return found
}

// The images that the files name are those of the table, which has no others.
func TestImagesAreTheNewestPatches(t *testing.T) {
	t.Parallel()
	newest, used := patches(t), map[string]bool{}
	for _, file := range []string{"docker-compose.yml", "deploy/compose-agents.yml", "Dockerfile"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		expect.OK(t, err)
		for _, image := range regexp.MustCompile(`(?m)^(?:FROM|\s+image:) (([a-z/.]+:[0-9.]+)\S*)`).FindAllStringSubmatch(string(text), -1) {
			wantPinned(t, image[1])
			used[image[2]] = true
			if newest[image[2]] == "" {
				t.Errorf("%s: %s is not in the table of docs/security.md", file, image[2])
			}
		}
	}
	for image, looked := range newest {
		if day, err := time.Parse(time.DateOnly, looked); err != nil || day.After(time.Now()) {
			t.Errorf("%s was looked up at %s", image, looked)
		}
		if !used[image] {
			t.Errorf("no file uses %s", image)
		}
	}
}
