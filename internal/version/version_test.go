package version

import (
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	heading  = regexp.MustCompile(`(?m)^## \[(.*?)\](.*)$`)
	semantic = regexp.MustCompile(`^\d+\.\d+\.\d+(?:-dev)?(?:\+[0-9A-Za-z.-]+)?$`)
)

// Number is the CHANGELOG's newest version, with -dev until that has a date. After a release, the
// first change makes it a next version with -dev.
func TestChangelogHasTheVersion(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	versions := heading.FindAllStringSubmatch(string(text), -1)
	if len(versions) < 2 || versions[0][1] != "Unreleased" {
		t.Fatalf("CHANGELOG.md does not begin with [Unreleased] and a version: %q", versions)
	}
	newest := versions[1][1]
	want := []string{newest}
	released := versions[1:]
	_, rest, _ := strings.Cut(string(text), "\n## [Unreleased]")
	unreleased, _, _ := strings.Cut(rest, "\n## [")
	switch {
	case versions[1][2] == " - not yet released":
		want, released = []string{newest + "-dev"}, versions[2:]
	case strings.TrimSpace(unreleased) != "":
		want = nextVersions(t, newest)
	}
	if !slices.Contains(want, Number) {
		t.Errorf("the programs say %s, want by CHANGELOG.md: %q", Number, want)
	}
	for _, v := range released {
		if _, err := time.Parse(" - "+time.DateOnly, v[2]); err != nil {
			t.Errorf("version %s has no date: %v", v[1], err)
		}
	}
}

// nextVersions are the versions that may follow one, before their release.
func nextVersions(t *testing.T, version string) []string {
	t.Helper()
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); err != nil {
		t.Fatalf("version %s: %v", version, err)
	}
	return []string{
		fmt.Sprintf("%d.0.0-dev", major+1),
		fmt.Sprintf("%d.%d.0-dev", major, minor+1),
		fmt.Sprintf("%d.%d.%d-dev", major, minor, patch+1),
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	if s := String(); !strings.HasPrefix(s, Number) || !semantic.MatchString(s) {
		t.Errorf("%q", s)
	}
	build := func(path string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Path: path}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "648303d6c1f2aaaa"}
	for _, c := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{nil, ""},
		{build(module), ""},
		{build(module, revision), "+648303d6c1f2"},
		{build(module, revision, debug.BuildSetting{Key: "vcs.modified", Value: "false"}), "+648303d6c1f2"},
		{build(module, revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"}), "+648303d6c1f2.dirty"},
		{build("other", revision), ""},
	} {
		if got := metadata(c.info); got != c.want {
			t.Errorf("%+v: %q, want %q", c.info, got, c.want)
		}
	}
}
