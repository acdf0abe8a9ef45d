package session

// Stopped is the result of turnstile.Session.Stop.
type Stopped struct {
	Phase   Phase // when Stop came
	Fence   int64 // the fencing token of the cancelled turn, 0 if idle
	Dropped int   // how many waiting messages were archived
}

// Undone is the turn that turnstile.Session.Undo or Retry removed from the transcript.
type Undone struct {
	Turn    string // its ID
	Text    string // the user's text; several messages are joined by blank lines
	Entries int    // how many entries it had
}
