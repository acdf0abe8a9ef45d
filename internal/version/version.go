// Package version has the version of the programs.
package version

import "runtime/debug"

// Number is the newest version in the CHANGELOG, or the next one with -dev while the CHANGELOG has
// changes under Unreleased.
const Number = "0.2.0-dev"

// String is Number with the revision that the program was built from as build metadata:
// 0.2.0-dev+648303d6c1f2, and .dirty if files were changed. Programs made by `go run`, or built
// outside a clone, have no revision.
func String() string {
	info, _ := debug.ReadBuildInfo()
	return Number + metadata(info)
}

// metadata returns "+" and the revision, or "" without one. info may be nil.
func metadata(info *debug.BuildInfo) string {
	if info == nil || info.Main.Path != "turnstile" {
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
