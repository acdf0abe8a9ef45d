package main

// The exit codes.
const (
	exitOK          = 0
	exitOther       = 1   // Redis cannot be reached, refuses, or breaks off
	exitUsage       = 2   // flags, settings or input that break the rules
	exitRefused     = 3   // the session was busy, or its line full
	exitTimeout     = 4   // no answer in time; the message goes on
	exitEnded       = 5   // the message ended otherwise than done
	exitInterrupted = 130 // Ctrl-C; what was put in stays
)

// worst returns the code of several: what did not go in counts before what went
// in and was not answered well.
func worst(codes map[int]bool) int {
	for _, code := range []int{exitInterrupted, exitOther, exitRefused, exitUsage, exitEnded, exitTimeout} {
		if codes[code] {
			return code
		}
	}
	return exitOK
}

// failure is an error with its exit code and what it is about.
type failure struct {
	code        int
	text        string
	session, id string
	line        int  // of the file, 0: none
	said        bool // stdout tells of it already, by an object of its own
}

func (f failure) Error() string { return f.text }

// usage is bad usage or input.
func usage(err error) failure { return failure{code: exitUsage, text: err.Error()} }
