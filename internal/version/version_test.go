package version

import (
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

var (
	heading  = regexp.MustCompile(`(?m)^## \[(.*?)\](.*)$`)
	semantic = regexp.MustCompile(`^\d+\.\d+\.\d+(?:\+[0-9A-Za-z.-]+)?$`)
)

// The programs' version is the newest released one of the CHANGELOG.
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
	if newest := versions[1][1]; newest != Number {
		t.Errorf("CHANGELOG.md is at %s, the programs say %s", newest, Number)
	}
	for _, v := range versions[1:] {
		if _, err := time.Parse(" - "+time.DateOnly, v[2]); err != nil {
			t.Errorf("version %s has no date: %v", v[1], err)
		}
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
		{build("turnstile"), ""},
		{build("turnstile", revision), "+648303d6c1f2"},
		{build("turnstile", revision, debug.BuildSetting{Key: "vcs.modified", Value: "false"}), "+648303d6c1f2"},
		{build("turnstile", revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"}), "+648303d6c1f2.dirty"},
		{build("other", revision), ""},
	} {
		if got := metadata(c.info); got != c.want {
			t.Errorf("%+v: %q, want %q", c.info, got, c.want)
		}
	}
}
