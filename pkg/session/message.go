package session

// Message is a user's message.
type Message struct {
	ID          string            `json:"id"` // unique within its session
	Text        string            `json:"text"`
	Meta        map[string]string `json:"meta,omitempty"`
	Attachments []Attachment      `json:"attachments,omitempty"`

	// Request is what the sender's program brings for the agent's model. nil: nothing.
	Request *ModelRequest `json:"request,omitempty"`
}

// Attachment is a reference to a file. Turnstile hands it to the agent and does not open the file.
// Name is required, and either URL or Path.
type Attachment struct {
	Name string `json:"name"`
	Mime string `json:"mime,omitempty"`
	URL  string `json:"url,omitempty"`
	Path string `json:"path,omitempty"`
	Size int64  `json:"size,omitempty"` // bytes
}

// NoReply as a message's destination means none, even if its session has one.
const NoReply = "-"

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
