package wire

import (
	"strings"
)

// The parts of a traceparent of W3C Trace Context: version-traceid-parentid-flags.
const (
	traceID   = 3
	parentID  = traceID + 32 + 1
	flags     = parentID + 16 + 1
	traceMost = flags + 2
)

// TraceParent returns a header's W3C traceparent in the form that messages have, or "" if the value
// is invalid. Of a later version it returns the fields of version 00.
func TraceParent(value string) string {
	if len(value) < traceMost || value[2] != '-' || value[parentID-1] != '-' || value[flags-1] != '-' {
		return ""
	}
	version, rest := value[:2], value[traceMost:]
	for _, part := range []string{version, value[traceID : parentID-1], value[parentID : flags-1], value[flags:traceMost]} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return ""
		}
	}
	switch {
	case version == "ff", version == "00" && rest != "", rest != "" && rest[0] != '-',
		strings.Trim(value[traceID:parentID-1], "0") == "", strings.Trim(value[parentID:flags-1], "0") == "":
		return ""
	}
	return "00" + value[2:traceMost]
}
