package session

// Mode is what a message does while a turn runs in its session.
type Mode string

// The modes. The empty mode means the session's (see QueueSettings), or the worker's if the session
// has none.
const (
	ModeQueue     Mode = "queue"     // wait in line
	ModeCollect   Mode = "collect"   // wait in line, and run in one turn with other such messages
	ModeSteer     Mode = "steer"     // join the running turn if its agent can take it, else wait in line
	ModeInterrupt Mode = "interrupt" // cancel the running turn and run next; its entries stay
	ModeRollback  Mode = "rollback"  // cancel the running turn and run next; its entries are dropped
	ModeReject    Mode = "reject"    // be refused
)
