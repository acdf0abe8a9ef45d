package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"turnstile/test/expect"
)

// vulnerabilities runs CI's step on one small package.
func vulnerabilities(t *testing.T, database string) (out string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), root+"/.ci/vulnerabilities.sh", "./internal/redis/redisconn")
	cmd.Env = append(os.Environ(), "GOVULNDB="+database)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// It also prints the table of the images, with its age.
func TestVulnerabilitiesAreNotCheckedSilently(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	out, err := vulnerabilities(t, "http://"+addr)
	if err != nil || !strings.Contains(out, "NOT CHECKED") || !strings.Contains(out, addr) {
		t.Errorf("%v\n%s", err, out)
	}
	for image, looked := range patches(t) {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(image) + `, looked up \d+ days ago \(` + looked + `: .+\)$`).MatchString(out) {
			t.Errorf("it does not print %s of %s:\n%s", image, looked, out)
		}
	}
}

// The step fails if the database has a vulnerability that the code calls, and succeeds otherwise.
// Building the checker takes long.
func TestVulnerabilitiesAreFound(t *testing.T) {
	t.Parallel()
	if !expect.Proof() {
		t.Skip("takes a minute: set TURNSTILE_PROOF=true, as make proof does")
	}
	const entry = `{"schema_version":"1.3.1","id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z","published":"2026-01-01T00:00:00Z",
		"summary":"a hole of a test","affected":[{"package":{"name":"stdlib","ecosystem":"Go"},"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
		"ecosystem_specific":{"imports":[{"path":"net/url","symbols":["PathUnescape"]}]}}],"database_specific":{"url":"https://example.com"}}`
	for modules, fails := range map[string]bool{
		`[]`: false,
		`[{"path":"stdlib","vulns":[{"id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z"}]}]`: true,
	} {
		dir := t.TempDir()
		for path, text := range map[string]string{
			"index/db.json": `{"modified":"2026-01-01T00:00:00Z"}`, "index/modules.json": modules, "index/vulns.json": `[]`, "ID/GO-2026-0001.json": entry,
		} {
			file := filepath.Join(dir, path)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := vulnerabilities(t, "file://"+dir)
		if (err != nil) != fails || strings.Contains(out, "GO-2026-0001") != fails {
			t.Errorf("the database %s: %v\n%s", modules, err, out)
		}
	}
}
