package agents

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	"turnstile/test/history"
)

// exitRetry is the exit code after which a turn is retried.
const exitRetry = 75

type object = map[string]any

func encode(v object) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

func say(v object) { _, _ = os.Stdout.Write(append(encode(v), '\n')) }

// given is the turn object of docs/agents/jsonl.md, with the fields that the agent reads.
type given struct {
	Session   string `json:"session"`
	SessionID string `json:"session_id"`
	Turn      string `json:"turn"`
	Fence     int64  `json:"fence"`
	Attempt   int    `json:"attempt"`
	Messages  []struct{ ID, Text string }
	History   []struct {
		Role    string `json:"role"`
		Message string `json:"message"`
	}
}

// line is a later line on stdin: a steer or a decision.
type line struct {
	Type    string
	ID      string
	Message struct{ ID, Text string }

	// Of a step.
	Key, State, Error string
	IdempotencyKey    string `json:"idempotency_key"`
}

// Exec is a command of exec with TURNSTILE_AGENT_FORMAT=jsonl. It returns its exit code.
func Exec(dir string) int {
	started := time.Now().UnixNano()
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	text, err := in.ReadBytes('\n')
	var g given
	if err == nil {
		err = json.Unmarshal(text, &g)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "read the turn:", err)
		return 1
	}
	rec := history.Record{Session: g.Session, SID: g.SessionID, Turn: g.Turn, Fence: g.Fence, Attempt: g.Attempt, Since: started}
	var plans []Plan
	for _, m := range g.Messages {
		rec.IDs = append(rec.IDs, m.ID)
		plans = append(plans, Plans(m.Text)...)
	}
	for _, e := range g.History {
		if e.Role == "user" {
			rec.Seen = append(rec.Seen, e.Message)
		}
	}
	r, err := newRecorder(dir, "exec")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	t, err := r.begin(rec)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	a := execAgent{t: t, g: g, ids: rec.IDs, lines: make(chan line, 64)}
	go a.read(in)
	return a.run(plans)
}

type execAgent struct {
	t     *turn
	g     given
	ids   []string
	lines chan line
}

func (a *execAgent) read(in *bufio.Reader) {
	for {
		text, err := in.ReadBytes('\n')
		var l line
		if err != nil || json.Unmarshal(text, &l) != nil {
			return
		}
		a.lines <- l
	}
}

func (a *execAgent) run(plans []Plan) int {
	say(object{"type": "ready", "steers": true})
	var last Plan
	for _, p := range plans {
		last = p
		a.work(p)
	}
	status := last.End
	switch {
	case last.End == history.EndDie:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case last.End == history.EndPoison:
		a.t.poison()
	case last.End == history.EndRetry && a.g.Attempt == 1:
		a.t.end(status)
		return exitRetry
	case last.End == history.EndFail:
		say(object{"type": "error", "message": history.ToldToFail})
		a.t.end(status)
		return 0
	case last.End == history.EndAsk && !a.ask():
		return 0 // the turn is parked
	}
	a.steers()
	say(object{"type": "text", "text": history.Reply(a.ids)})
	a.t.end(history.EndOK)
	return 0
}

// pieces is how many pieces of text a plan's work has. Steers are taken between them.
const pieces = 4

func (a *execAgent) work(p Plan) {
	for i := range p.Tools {
		a.step(p, fmt.Sprintf("%s-%d", p.ID, i), i%2 == 1)
	}
	for n := range pieces {
		say(object{"type": "text", "text": history.Piece(p.ID, n)})
		time.Sleep(p.Work / pieces)
		a.steers()
	}
}

// step uses a tool as a step, unless the message kills its worker: a run that has ended a step does not count.
func (a *execAgent) step(p Plan, key string, again bool) {
	if p.End == history.EndPoison {
		say(object{"type": "tool_start", "name": key, "call_id": key})
		say(object{"type": "tool_end", "call_id": key, "output": "ok"})
		return
	}
	say(object{"type": "tool_start", "key": key, "input": "x", "run_again": again})
	known := a.await("step", key)
	end := object{"type": "tool_end", "key": key, "output": "ok"}
	switch {
	case known.State == "refused":
		fmt.Fprintln(os.Stderr, known.Error)
		os.Exit(1)
	case known.State == "unknown" && !again:
		end = object{"type": "tool_end", "key": key, "error": "it may have happened"}
	case known.State != "done":
		a.t.step(history.Step, p.ID, key, known.IdempotencyKey, again)
		time.Sleep(p.Work / pieces)
	}
	if known.State != "done" {
		say(end)
		if stored := a.await("stored", key); stored.Error != "" {
			fmt.Fprintln(os.Stderr, stored.Error)
			os.Exit(1)
		}
	}
	a.t.step(history.Stepped, p.ID, key, "", again)
}

// await waits for a line about a step. It takes steers that come before it.
func (a *execAgent) await(kind, key string) line {
	for l := range a.lines {
		switch {
		case l.Type == kind && l.Key == key:
			return l
		case l.Type == "steer":
			a.take(l)
		}
	}
	return line{}
}

func (a *execAgent) take(l line) {
	a.t.steered(l.Message.ID)
	say(object{"type": "steered", "id": l.Message.ID})
	a.ids = append(a.ids, l.Message.ID)
}

func (a *execAgent) steers() {
	for {
		select {
		case l := <-a.lines:
			if l.Type == "steer" {
				a.take(l)
			}
		default:
			return
		}
	}
}

// ask asks whether to go on. It returns false if the turn is parked meanwhile: then a later run asks again.
func (a *execAgent) ask() bool {
	say(object{"type": "ask", "id": "q1", "name": "go on", "key": "go on"})
	for l := range a.lines {
		switch l.Type {
		case "steer":
			a.take(l)
		case "answer":
			return true
		case "parked":
			return false
		}
	}
	return true
}
