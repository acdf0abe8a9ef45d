package reference

import "slices"

// Session is one session with everything stored about it.
type Session struct {
	Config Config

	// Now is Redis's clock, ms. Wall is that of asynq's own programs.
	Now, Wall int64

	Messages map[string]*Message // every existing task, by its message's ID
	Line     []string            // ids of waiting messages, the next one first

	Owner int // the token in the sentinel; 0: there is none; inDoubt
	Run   Run
	Record
	Outbox
	Resume      Resume
	Journal     *Journal
	State       string             // of the agent
	FollowUps   []FollowUp         // in the order of their arrival
	Transcripts map[string][]Entry // by transcript ID
	Events      []string           // of the last operation
	Renewed     map[string]bool    // transcripts with a renewed TTL
	Paused      bool               // by an operator
	Index       Index

	unsaid                    unsaid
	question                  question
	start                     int64
	tokens, turns, ids, again int               // counters for new names
	published                 bool              // the plain asynq.Client added the queue's name
	given                     map[string]string // the requests of messages, by the IDs passed to Send
}

// Veteran is the worker that is older than any drain. The other one has just started.
const Veteran = 1

// Config is a worker's configuration.
type Config struct {
	Immediate     bool // agents have no start phase: turns begin as running
	StuckLimit    int  // interruptions in a row that suspend
	CrashSuspends bool // a worker's death suspends
	Keeps         bool // results are stored for a while
	TranscriptCap int
	LargeEntries  int         // that a transcript has room for
	TurnMessages  int         // that a turn has at most
	LineCap       int         // messages that may wait; half as many may be delayed
	OutboxCap     int         // deliveries that may be owed and stored
	TTL           int64       // the sentinel's, ms
	Workers       [2]Settings // each worker's settings for a busy session
	Agent         string      // by the session's key
}

// Settings decide about messages for a busy session. Zero: not set.
type Settings struct {
	Mode     string
	Cap      int
	Drop     string
	Debounce int64 // ms
}

// The states of a message in asynq.
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
	Long        bool // beyond the limits: no turn takes it
	State       string
	Due         int64  // of a scheduled one, ms
	Seq         int    // its number among the announced ones; 0: it was not announced
	Seen        int64  // when it was announced or first taken; 0: not yet
	Arrived     int64  // of a dead letter, its Seen
	Quiet       *Quiet // it waits to be collected with others into one turn
	Redelivered int    // how often its turn was begun again without a failure
	Deaths      int    // workers that died with it before its agent started
	diedIn      []int  // the turns of these
	Failures    int    // attempts that failed
	Status      string // how it ended
	Error       string
	Ended       int64
	Route       *Route // of its outcome; nil: none
	Steered     bool   // it has joined a turn that ran
}

// unsaid is the last message that failed or was stopped without entries, and the last turn's number by then.
type unsaid struct {
	id    string
	fence int
}

// question is the session's last question of an agent.
type question struct {
	number int
	at     int64
}

// Quiet is how long a collected message waits for more, and at how many it stops waiting.
type Quiet struct {
	Till int64
	Cap  int
}

// The phases of a turn.
const (
	Idle     = "idle"
	Starting = "starting"
	Running  = "running"
	Parked   = "parked" // it waits without an owner
)

// Run is the running turn, or the last one. If it is starting or running and nobody has the sentinel,
// its owner is dead.
type Run struct {
	Exists       bool // there was a turn
	Phase        string
	Fence        int // the number of the turn
	IDs          []string
	TranscriptID string
	Entries      int  // written to that transcript; it only increases
	Begun        bool // its owner has called since
	Announced    bool // its start is among the events
	Survived     bool // its owner lost it, and reported that it lives
	Doubted      bool // its owner had time to report so

	Stop, Interrupt, Rollback, Steer bool   // requested of it
	NoStart                          bool   // a drain keeps it from starting
	Ending                           string // not "": it was begun only to end like this, and no agent runs
	Question                         int    // its agent's open question; 0: none
	LastAsked                        int    // the question that the run put last, 0: none, or its last was decided before
	Decided                          int    // the last question with a decision
	Decision                         string
	value                            string // the key, if the question is a wait for a program's value

	Said    Settings // its owner's
	Rotated string   // the transcript ID of the next turn
	Agent   string   // its own, if the next turn has another; "": the session's
	Reset   string   // as its claim said
	Until   int64    // of a parked one

	Throttled int // how often its turn has waited for a provider
}

// Waits reports whether the turn waits for a program.
func (r *Run) Waits() bool { return r.Question > 0 && r.value != "" }

// Record is the stored state of an idle session.
type Record struct {
	Known        bool
	TranscriptID string
	Title        string
	TitleBy      string
	Settings     Settings
	ReplyTo      string   // the destination of replies to its messages
	Agent        string   // "": none yet
	Dropped      []string // ids for the next turn's note
	Used         int64

	undone int // the turn of the last /undo
	seq    int
	noted  int // how many were ever in Dropped
}

// Entry is a line of a transcript. Turn is the turn's number.
type Entry struct {
	Role, Text string
	Message    string // of the user's
	Turn       int
	Large      bool // a few of these fill a transcript
	Ended      bool // it is the last one of a turn that failed or was stopped
}

// Journal is what a turn had done at its last checkpoint.
type Journal struct {
	Turn     int
	Messages []string
	Entries  []Entry
	Steps    bool // it has some: then it belongs to the message, whatever transcript the next run has
	Progress int  // the last turn that has ended a step: its interruption does not count

	first  *Message          // another one with its id, enqueued later, is not its own
	waits  string            // the key of the last question with one
	number int               // its number
	given  map[string]string // "number decision" of each key that has one
	values map[string]int    // the numbers of waits for values
}

// FollowUp is the entry of a message that arrived during a turn.
type FollowUp struct {
	ID, Mode, State string
	Order           int // its place in the queue on arrival, counting the turn
}

// New is an unknown session.
func New(c Config, now int64) *Session {
	s := &Session{Config: c, Now: now, Wall: now, start: now}
	s.clear()
	return s
}

// clear deletes everything of the session.
func (s *Session) clear() {
	s.Messages, s.Line, s.Transcripts = map[string]*Message{}, nil, map[string][]Entry{}
	s.Paused, s.given = false, map[string]string{}
	s.forgetRecord()
}

// forgetRecord deletes all but the messages, and earlier transcripts.
func (s *Session) forgetRecord() {
	delete(s.Transcripts, s.TranscriptID)
	s.Run, s.Record, s.Resume = Run{Phase: Idle}, Record{}, Resume{}
	s.Journal, s.State, s.FollowUps, s.question = nil, "", nil, question{}
	s.clearOutbox()
}

// used sets when the record was last written.
func (s *Session) used() { s.Known, s.Used = true, s.Now }

// known begins the record.
func (s *Session) known() {
	if s.Used == 0 {
		s.used()
	}
}

func (s *Session) newTranscriptID() string {
	s.ids++
	return name("sid", s.ids)
}

// Step lets ms pass, and begins an operation.
func (s *Session) Step(ms int64) { s.Now, s.Events, s.Renewed = s.Now+ms, nil, map[string]bool{} }

// Die is the death of an owner. Its sentinel expires.
func (s *Session) Die() { s.Owner = 0 }

// tell appends an event to the session's stream.
func (s *Session) tell(event string) { s.Events = append(s.Events, event) }

// forgetFollowUp drops the entry of a message that no longer waits.
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
