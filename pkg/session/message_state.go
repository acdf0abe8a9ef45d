package session

// MessageState is where a stored message is.
type MessageState string

// The states of a message.
const (
	MessagePending   MessageState = "pending"
	MessageScheduled MessageState = "scheduled" // delayed
	MessageRetry     MessageState = "retry"     // its turn failed and will be tried again
	MessageRunning   MessageState = "running"
	MessageCompleted MessageState = "completed"
	MessageArchived  MessageState = "archived"  // a dead letter
	MessageGone      MessageState = "gone"      // only in a turnstile.Receipt: deleted, and not carried out again
	MessageCollected MessageState = "collected" // waits to share a turn; only in an admin.QueuedMessage
	MessageSteered   MessageState = "steered"   // the running turn's agent has it; only there
)
