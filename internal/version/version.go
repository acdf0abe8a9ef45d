// Package version has the version of the programs.
package version

import (
	"reflect"
	"runtime/debug"
	"strings"
)

// Number is the version of the newest section of CHANGELOG.md, with -dev until it is released. A
// release's tag is Number with a v: .ci/release.sh refuses any other.
const Number = "0.2.0-dev"

// module is the path of this module, whoever hosts it.
var module = strings.TrimSuffix(reflect.TypeFor[here]().PkgPath(), "/internal/version")

type here struct{}

// String is Number with the revision that the program was built from as build metadata:
// 0.2.0-dev+648303d6c1f2, and .dirty if files were changed. Programs made by `go run`, or built
// outside a clone, have no revision.
func String() string {
	info, _ := debug.ReadBuildInfo()
	return Number + metadata(info)
}

// metadata returns "+" and the revision, or "" without one. info may be nil.
func metadata(info *debug.BuildInfo) string {
	if info == nil || info.Main.Path != module {
		return "" // the revision is that of a program that uses the library
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	revision := settings["vcs.revision"]
	if revision == "" {
		return ""
	}
	revision = "+" + revision[:min(12, len(revision))]
	if settings["vcs.modified"] == "true" {
		revision += ".dirty"
	}
	return revision
}
