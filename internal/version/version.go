// Package version tells which version of the programs this is.
package version

import "runtime/debug"

// String is the module's version, or that of the sources it was built from.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (v == "" || v == "(devel)") {
			v = "(devel) " + s.Value
		}
	}
	if v == "" {
		v = "(devel)"
	}
	return v
}
