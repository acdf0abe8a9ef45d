package guardian

// The channel carries one JSON value a line, both ways. The two ends are always the same
// binary, so the form needs no version.

// launch is the first line to the guardian. What goes to the kernel is in
// base64: JSON would replace bytes that are not UTF-8.
type launch struct {
	Path []byte   `json:"path"`
	Args [][]byte `json:"args"`
	Env  [][]byte `json:"env"`
	Dir  []byte   `json:"dir,omitempty"`

	// Deadline is when the lease ends, in ns of sharedClock. 0: never.
	Deadline int64 `json:"deadline,omitempty"`
}

// order is a further line to it: one of the four.
type order struct {
	Deadline  int64 `json:"deadline,omitempty"`  // the lease was renewed until then
	Unlease   bool  `json:"unlease,omitempty"`   // there is no lease
	Interrupt *int  `json:"interrupt,omitempty"` // SIGINT, and SIGKILL after so many ms
	Kill      bool  `json:"kill,omitempty"`      // SIGKILL now
}

// report is a line to the worker: first Pid, then, when the last process is
// gone, Done with the rest. Or Error alone: the agent could not be started.
type report struct {
	Pid    int    `json:"pid,omitempty"`
	Error  string `json:"error,omitempty"`
	Done   bool   `json:"done,omitempty"`
	Code   int    `json:"code,omitempty"`
	Signal int    `json:"signal,omitempty"`
	Lease  bool   `json:"lease,omitempty"` // it was killed because the lease ran out
	Left   int    `json:"left,omitempty"`  // processes of another user, which could not be killed
}

func toBytes(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}

func toStrings(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}
