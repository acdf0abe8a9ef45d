// Package version tells which version of the programs this is.
package version

import "runtime/debug"

// Number is the version in the CHANGELOG that these sources are, or come after.
const Number = "0.1.0"

// String is Number, with the revision that the program was built from as build
// metadata: 0.1.0+648303d6c1f2, and .dirty where files were changed. `go run` and a
// build outside a clone know no revision.
func String() string {
	info, _ := debug.ReadBuildInfo()
	return Number + metadata(info)
}

// metadata is empty without a revision; a nil info has none.
func metadata(info *debug.BuildInfo) string {
	if info == nil || info.Main.Path != "turnstile" {
		return "" // a program that uses the library has revisions of its own
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
