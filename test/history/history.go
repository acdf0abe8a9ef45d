// Package history records a run of chaos or simulate for the checker. Chaos writes the records to files,
// one JSON object a line. Each line is one write to a file that is only appended to, so a killed process
// leaves whole lines. Simulate keeps the records in memory.
package history

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// The kinds of a Record. The comments name the writer.
const (
	Send     = "send"     // a sender, before an attempt
	Told     = "told"     // a sender, after it: Status
	Command  = "command"  // a sender of a slash command, after it
	Operator = "operator" // an operator's call, after it: Name, ID
	Turn     = "turn"     // an agent that begins: IDs, Seen, Overlap
	Steered  = "steered"  // an agent that takes a message in
	Ended    = "ended"    // an agent at its normal end: Status
	Step     = "step"     // an agent does a step of a message: Name, Again (it may be done again), Sum (its idempotency key)
	Stepped  = "stepped"  // an agent learned that the step's end is stored
	Given    = "given"    // a program, after it gave a turn a value: Sum (the wait's secret)
	Waited   = "waited"   // an agent, after a wait for a value: Sum, Done (it got one), Text (the value)
	Wait     = "wait"     // a receiver: the outcome of a wait
	Stream   = "stream"   // a follower of a session's events begins
	Followed = "followed" // a follower got an event: ID, Name, Text
	Response = "response" // a client of OpenAI's API
	Post     = "post"     // a webhook's receiver: the delivery, and its response
	Fault    = "fault"    // the harness, at a fault's end
	Stall    = "stall"    // the harness, after the machine did not run it for a while
	Healed   = "healed"   // the harness, at the last fault's end
	Calm     = "calm"     // the harness: nothing may be late from now on
	Drained  = "drained"  // the harness: everything has run, or it gave up (Status)
	Final    = "final"    // the harness, of each message at the end
	Stored   = "stored"   // the harness, of a place where Redis has a refused message: Name
	Entry    = "entry"    // the harness, of each transcript's entry at the end: Status, if its turn failed or was stopped
	Event    = "event"    // the harness, of each stored event at the end
	Left     = "left"     // the harness: a key, a process or a panic that should not be there
	Note     = "note"     // anyone, for people: Text
)

// The statuses of Told.
const (
	Accepted = "accepted" // stored, now or before
	Refused  = "refused"  // not stored
	Conflict = "conflict" // another message has the ID
	Unknown  = "unknown"  // no response
)

// Record is one event of a run. Its fields depend on its Kind.
type Record struct {
	At   int64  `json:"at,omitempty"` // ns since 1970, by the machine's clock
	Kind string `json:"kind"`

	Session string `json:"session,omitempty"`
	ID      string `json:"id,omitempty"` // a message's; of a post, the delivery's

	Since int64 `json:"since,omitempty"` // when it began, like At; a post's timestamp

	Via    string `json:"via,omitempty"`    // which entrance, exit or agent
	Mode   string `json:"mode,omitempty"`   // of a message
	Plan   string `json:"plan,omitempty"`   // how the agent of a message, or of a turn, must end
	Work   int64  `json:"work,omitempty"`   // how long the agent is to take, ns
	Delay  int64  `json:"delay,omitempty"`  // of a delayed message, ns
	Route  string `json:"route,omitempty"`  // the destination of its outcome
	Status string `json:"status,omitempty"` // see the kinds
	Reason string `json:"reason,omitempty"`

	Turn    string   `json:"turn,omitempty"`
	Fence   int64    `json:"fence,omitempty"`
	SID     string   `json:"sid,omitempty"`     // the transcript's ID
	IDs     []string `json:"ids,omitempty"`     // messages, or events
	Seen    []string `json:"seen,omitempty"`    // the messages of the history that the agent was given
	Attempt int      `json:"attempt,omitempty"` // of a turn or a delivery
	PID     int      `json:"pid,omitempty"`
	Overlap bool     `json:"overlap,omitempty"` // another agent had the session's lock

	Name   string `json:"name,omitempty"` // of a fault, a command, an event's or delivery's type, a leftover
	Target string `json:"target,omitempty"`
	N      int64  `json:"n,omitempty"` // the entry's place; a delivery's sequence
	Role   string `json:"role,omitempty"`
	Text   string `json:"text,omitempty"`
	Reply  string `json:"reply,omitempty"`
	Error  string `json:"error,omitempty"`
	Sum    string `json:"sum,omitempty"`   // a body's hash
	Code   int    `json:"code,omitempty"`  // an HTTP status; 0: the connection was closed
	Valid  bool   `json:"valid,omitempty"` // the signature was
	Again  bool   `json:"again,omitempty"` // the delivery says that it may be a repetition
	Done   bool   `json:"done,omitempty"`  // the receiver handled the delivery
}

// Log keeps records, in one file or, as the zero value, in memory. It is safe for concurrent use, a file
// also by several processes.
type Log struct {
	mu      sync.Mutex
	file    *os.File // nil: in memory
	records []Record
	err     error
}

// Open opens a log in a directory.
func Open(dir, name string) (*Log, error) {
	f, err := os.OpenFile(filepath.Join(dir, name+".jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &Log{file: f}, nil
}

// Add adds a record, to a file with one write. It fills in At. The error stays for Close.
func (l *Log) Add(r Record) {
	if r.At == 0 {
		r.At = time.Now().UnixNano()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		l.records = append(l.records, r)
		return
	}
	line, err := json.Marshal(r)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	l.err = cmp.Or(l.err, err)
}

// Note adds a line for people.
func (l *Log) Note(format string, args ...any) {
	l.Add(Record{Kind: Note, Text: fmt.Sprintf(format, args...)})
}

// Records returns the records in memory.
func (l *Log) Records() []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.records)
}

// Print returns records for people: one a line, with the seconds since the first.
func Print(all []Record) string {
	var b strings.Builder
	for _, r := range all {
		since := r.At - all[0].At
		if r.Since != 0 {
			r.Since -= all[0].At
		}
		text := r.Text
		if r.At = 0; r.Kind != Note {
			line, _ := json.Marshal(r) //nolint:errchkjson // only texts and numbers
			text = string(line)
		}
		fmt.Fprintf(&b, "%12.6f  %s\n", time.Duration(since).Seconds(), text)
	}
	return b.String()
}

// Close closes the file and returns the first error of an Add.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.err, l.file.Close())
}

// Load reads all logs of a directory.
func Load(dir string) (all []Record, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		records, err := read(name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		all = append(all, records...)
	}
	return all, nil
}

func read(name string) (all []Record, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewReaderSize(f, 1<<20)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 && err == io.EOF {
			return all, nil
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, r)
	}
}
