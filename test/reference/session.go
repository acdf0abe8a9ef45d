package reference

import "slices"

// Session is one conversation with all that is stored of it.
type Session struct {
	Config Config

	// Now is Redis' clock, ms. Wall is that of asynq's own programs.
	Now, Wall int64

	Messages map[string]*Message // every task there is, by its message's id
	Line     []string            // ids that wait, the next one first

	Owner int // the token that holds the sentinel; 0: nobody's
	Run   Run
	Record
	Resume      Resume
	Partial     *Partial
	State       string             // what the agent keeps
	FollowUps   []FollowUp         // in the order of their arrival
	Transcripts map[string][]Entry // by session id
	Events      []string           // of the last operation
	Paused      bool               // by an operator
	Index       Index

	asked                     question
	start                     int64
	tokens, turns, ids, again int  // counters that name what is new
	published                 bool // the plain asynq.Client has told of the queue
}

// Config is what a worker is told at its start.
type Config struct {
	Immediate     bool // agents have no start of their own: turns begin as running
	StuckLimit    int  // interruptions in a row that suspend
	CrashSuspends bool // a worker's death suspends
	Keeps         bool // results are kept for a while
	TranscriptCap int
	LargeEntries  int         // that a transcript has room for
	TurnMessages  int         // that a turn has at most
	LineCap       int         // messages that may wait, a half of them as delayed ones
	TTL           int64       // the sentinel's, ms
	Workers       [2]Settings // what each of the workers says about a busy line
}

// Settings say what a message does that finds its session busy. Zero: not said.
type Settings struct {
	Mode     string
	Cap      int
	Drop     string
	Debounce int64 // ms
}

// The states of a message that asynq knows.
const (
	Scheduled = "scheduled"
	Pending   = "pending"
	Active    = "active"
	Completed = "completed"
	Archived  = "archived"
)

// Message is a task.
type Message struct {
	ID, Text    string
	Long        bool // longer than any may be: no turn takes it
	State       string
	Due         int64  // of a scheduled one, ms
	Seq         int    // its number among those that were announced; 0: it was not
	Seen        int64  // when it was announced or first taken; 0: not yet
	Arrived     int64  // of a dead letter, its Seen
	Quiet       *Quiet // it waits for more, to be one turn with them
	Redelivered int    // came back without a failure
	Deaths      int    // workers that died with it
	Failures    int    // attempts that failed
	Status      string // how it ended
	Error       string
	Ended       int64
}

// question is the last one that an agent of the session has asked.
type question struct {
	number int
	at     int64
}

// Quiet is how long a collected message waits for more, and with how many it waits no
// longer.
type Quiet struct {
	Till int64
	Cap  int
}

// The phases of a turn.
const (
	Idle     = "idle"
	Starting = "starting"
	Running  = "running"
)

// Run is the turn that runs, or that ran last. If it is not idle and nobody has the
// sentinel, its owner has died.
type Run struct {
	Exists    bool // there was a turn
	Phase     string
	Fence     int // the number of the turn
	IDs       []string
	SessionID string
	Entries   int  // written to that session id; it only rises
	Begun     bool // its owner was heard of
	Announced bool // its start was told with events

	Stop, Interrupt, Rollback, Steer bool // what was asked of it
	NoStart                          bool // a drain keeps it from starting
	Question                         int  // that its agent asks; 0: none
	LastAsked                        int  // the turn's last question, 0: it had none
	Answered                         int  // the last question that was answered
	Decision                         string

	Said    Settings // its owner's
	Rotated string   // the session id that the next turn takes
	HeldID  string   // the message that waits after a failure
	Held    int64    // until then
}

// Record is what is kept of a session while nothing runs.
type Record struct {
	Known     bool
	SessionID string
	Title     string
	TitleBy   string
	Settings  Settings
	Dropped   []string // ids of which the next turn is told
	Used      int64

	seq   int
	noted int // how many there have ever been in Dropped
}

// Entry is a line of a transcript. Turn is the turn's number.
type Entry struct {
	Role, Text string
	Turn       int
	Large      bool // some of these fill a transcript
}

// Partial is what a turn had done when it was last stored.
type Partial struct {
	Turn     int
	Messages []string
	Entries  []Entry
}

// FollowUp is what is told of a message that came while a turn ran.
type FollowUp struct {
	ID, Mode, State string
	Order           int // its place in the line when it came, the turn counted
}

// New is a session that nobody has heard of.
func New(c Config, now int64) *Session {
	s := &Session{Config: c, Now: now, Wall: now, start: now}
	s.clear()
	return s
}

// clear leaves nothing of the conversation.
func (s *Session) clear() {
	s.Messages, s.Line, s.Transcripts = map[string]*Message{}, nil, map[string][]Entry{}
	s.Paused = false
	s.forgetRecord()
}

// forgetRecord leaves the messages, and transcripts of earlier session ids.
func (s *Session) forgetRecord() {
	delete(s.Transcripts, s.SessionID)
	s.Run, s.Record, s.Resume = Run{Phase: Idle}, Record{}, Resume{}
	s.Partial, s.State, s.FollowUps, s.asked = nil, "", nil, question{}
}

// used notes that the record was written to.
func (s *Session) used() { s.Known, s.Used = true, s.Now }

// known begins the record.
func (s *Session) known() {
	if s.Used == 0 {
		s.used()
	}
}

func (s *Session) newSessionID() string {
	s.ids++
	return name("sid", s.ids)
}

// Step lets time pass, ms, and begins an operation.
func (s *Session) Step(ms int64) { s.Now, s.Events = s.Now+ms, nil }

// Die is the end of an owner, whose sentinel runs out.
func (s *Session) Die() { s.Owner = 0 }

// tell appends to the session's stream.
func (s *Session) tell(event string) { s.Events = append(s.Events, event) }

// forgetFollowUp drops the entry of a message that is waiting no more.
func (s *Session) forgetFollowUp(id string) {
	s.FollowUps = slices.DeleteFunc(s.FollowUps, func(f FollowUp) bool { return f.ID == id })
}

func (s *Session) followUp(id string) *FollowUp {
	for i := range s.FollowUps {
		if s.FollowUps[i].ID == id {
			return &s.FollowUps[i]
		}
	}
	return nil
}
