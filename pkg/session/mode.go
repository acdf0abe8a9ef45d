package session

// Mode is how a message is handled while a turn runs in its session.
type Mode string

// The modes. The empty mode means the session's (see QueueSettings), or the worker's if the session
// has none.
const (
	ModeQueue     Mode = "queue"     // wait in the queue
	ModeCollect   Mode = "collect"   // wait in the queue, and run in one turn with other such messages
	ModeSteer     Mode = "steer"     // join the running turn if its agent can take it, else wait in the queue
	ModeInterrupt Mode = "interrupt" // cancel the running turn and run next; its entries stay
	ModeRollback  Mode = "rollback"  // cancel the running turn and run next; its entries are dropped
	ModeReject    Mode = "reject"    // be refused
)
