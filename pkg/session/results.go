package session

// Stopped is what Stop found.
type Stopped struct {
	Phase   string // of the turn that was told to end: idle, starting or running
	Fence   int64  // that turn
	Dropped int    // messages that waited and are archived as "stopped by user", by whomever
}

// Undone is what Undo or Retry has taken out.
type Undone struct {
	Turn    string
	Text    string // what the user had said
	Entries int    // how many
}
