package session

// Stopped is the result of Client.Stop.
type Stopped struct {
	Phase   string // of the session when Stop came: PhaseIdle, PhaseStarting or PhaseRunning
	Fence   int64  // the fencing token of the turn that Stop ends, 0 if idle
	Dropped int    // messages that were waiting and are archived
}

// Undone is the turn that Client.Undo or Client.Retry took out of the transcript.
type Undone struct {
	Turn    string // its id
	Text    string // what the user said, messages joined by a blank line
	Entries int    // how many entries it had
}
