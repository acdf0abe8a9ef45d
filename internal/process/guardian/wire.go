package guardian

// The channel carries one JSON value per line, both ways. Both ends are always the same binary,
// so the format needs no version.

// launch is the first line to the guardian. Values for the kernel are in base64, because JSON
// would replace bytes that are not UTF-8.
type launch struct {
	Path []byte   `json:"path"`
	Args [][]byte `json:"args"`
	Env  [][]byte `json:"env"`
	Dir  []byte   `json:"dir,omitempty"`
	Kill [][]byte `json:"kill,omitempty"`

	Launcher bool `json:"launcher,omitempty"` // it inherits the channel

	// Deadline is the end of the lease, in ns of sharedClock. 0: no lease.
	Deadline int64 `json:"deadline,omitempty"`
}

// order is a later line to the guardian, with one of the four fields.
type order struct {
	Deadline  int64 `json:"deadline,omitempty"`  // the new end of the lease
	Unlease   bool  `json:"unlease,omitempty"`   // there is no lease
	Interrupt *int  `json:"interrupt,omitempty"` // SIGINT now, and SIGKILL after so many ms
	Kill      bool  `json:"kill,omitempty"`      // SIGKILL now
}

// report is a line to the worker. The first has Pid. After the last process's end, Done comes with
// the rest. If the agent could not be started, Error is the only report, or a launcher's before Done.
type report struct {
	Pid    int    `json:"pid,omitempty"`
	Error  string `json:"error,omitempty"`
	Own    bool   `json:"own,omitempty"` // see Status.OwnFault
	Done   bool   `json:"done,omitempty"`
	Code   int    `json:"code,omitempty"`
	Signal int    `json:"signal,omitempty"`
	Lease  bool   `json:"lease,omitempty"` // it was killed because the lease ended
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
