package session

// MessageState is where a stored message is.
type MessageState string

// The states of a message.
const (
	MessagePending   MessageState = "pending"   // it waits in its session's queue
	MessageScheduled MessageState = "scheduled" // it is delayed
	MessageRetry     MessageState = "retry"     // its turn failed and will be tried again
	MessageRunning   MessageState = "running"
	MessageCompleted MessageState = "completed"
	MessageArchived  MessageState = "archived" // a dead letter
	MessageGone      MessageState = "gone"     // of a Receipt: deleted, and not carried out again
)
